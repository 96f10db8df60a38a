#!/usr/bin/env python3
"""Checks the strata of the sources: who may include whom, no header cycles, every header compiles alone.

    check.py SOURCE_DIR BUILD_DIR [--sizes | --circles]

The rules are the tables below; README.md says them in words, under "Where things are". BUILD_DIR holds compile_commands.json (include paths and definitions
come from there) and the objects. --sizes prints the sizes of files and functions instead, --circles the files that need each other in a circle by calls.
Rooms, and who may write what: rooms.py. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rooms

FOLDERS = ["proto", "picture", "registry", "engine", "broker", "worker", "client-lib"]
PROGRAMS = {"engine/tools": "engine-tools", "engine/examples": "engine-examples", "client-lib/examples": "examples", "client-lib/gateway": "gateway", "client-lib/cli": "cli"}  # programs in a library's folder: they have rules of their own

ROOMY_PROGRAMS = ["client-lib/gateway"]  # those with rooms of their own

# What the engine may see of proto: the target proto_base.
PROTO_BASE = {"penstock/status.h", "penstock/dtype.h", "penstock/tensor.h", "penstock/precision.h", "digest.h", "precisions.h", "words.h", "cores.h", "assertion.h", "mutex.h",
              "error_complete.h"}

# folder -> other folders whose headers it may include. "engine:public" is engine/include.
MAY_SEE = {
    "proto": set(),
    "picture": {"proto:base"},
    "registry": {"proto"},
    "engine": {"proto:base"},
    "broker": {"proto"},
    "worker": {"proto", "engine:public", "picture", "registry"},
    "client-lib": {"proto", "picture"},
    "engine-tools": {"proto", "engine", "picture"},
    "engine-examples": {"proto:base", "engine:public"},
    "examples": {"proto", "client-lib:public"},
    "gateway": {"proto", "client-lib:public"},
    "cli": {"proto", "client-lib", "picture", "registry"},
}

# Libraries beyond libc, by the start of the header's name, and the folders that may use them.
LIBRARIES = {
    "zmq": {"broker", "worker", "client-lib", "cli"},
    "hiredis": {"broker"},
    "microhttpd": {"broker"},
    "protobuf-c": {"proto", "broker", "worker", "client-lib", "gateway", "cli"},
    "nghttp2": {"gateway"},
    "xxhash.h": {"proto", "engine"},
    "sodium": {"proto", "registry", "engine"},
    "curl/": {"registry"},
    "cjson": {"registry", "engine", "engine-tools", "worker", "client-lib", "broker", "examples", "cli"},
    "xnnpack.h": {"engine"},
    "vulkan/vulkan.h": {"engine"},
    "pthreadpool.h": {"engine"},
    "cpuinfo.h": {"engine"},
    "zlib.h": {"gateway"},
    "dnnl": {"engine"},
    "oneapi": {"engine"},
    "png.h": {"picture"},
    "jpeglib.h": {"picture"},
    "jerror.h": {"picture"},
    "webp/": {"picture"},
    "curses.h": {"cli"},
    "ncurses": {"cli"},
    "criterion": set(),
}

# Inline headers: who includes one links the library.
INLINE = {"proto/wire/large_frame.h": "zmq", "proto/wire/bulk_context.h": "zmq", "proto/wire/pack_socket.h": "zmq",
          "proto/sealed/parcel_frames.h": "zmq"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


class Tree:
    """All sources and headers of the folders, and where an include of each leads."""

    def __init__(self, root):
        self.root = root
        self.files = [p for folder in FOLDERS for p in sorted((root / folder).rglob("*.[ch]")) if (root / folder).is_dir()]
        self.by_suffix = {}  # "run/session.h" -> files whose path ends so
        for path in self.files:
            parts = path.relative_to(root).parts
            for start in range(len(parts)):
                self.by_suffix.setdefault("/".join(parts[start:]), []).append(path)

    def folder(self, path):
        return path.relative_to(self.root).parts[0]

    def unit(self, path):
        """What the rules speak of: the folder, or a program in it."""
        relative = path.relative_to(self.root)
        return PROGRAMS.get("/".join(relative.parts[:2]), relative.parts[0])

    def includes(self, path):
        for match in INCLUDE.finditer(path.read_text()):
            yield match.group(1), match.group(2)

    def resolve(self, path, name):
        """The file of ours an include means: beside the includer, else below its own folder, else anywhere; None: not ours."""
        beside = (path.parent / name)
        if beside.exists():
            return Path(os.path.normpath(beside))
        found = self.by_suffix.get(name, [])
        own = [f for f in found if self.folder(f) == self.folder(path)]
        return (own or found or [None])[0]


def complaint(tree, path, quote, name):
    """Why this include is not allowed, or None."""
    folder = tree.unit(path)
    if name.endswith(".pb-c.h"):
        return None if folder == "proto" or "proto" in MAY_SEE[folder] else f"{folder} may not see messages"
    for library, users in LIBRARIES.items():
        if name.startswith(library) and INLINE.get(str(path.relative_to(tree.root))) == library:
            return None
        if name.startswith(library):
            return None if folder in users else f"{folder} may not use {library}"
    target = None if quote == "<" and "/" not in name else tree.resolve(path, name)  # <link.h> is the system's
    if target is None:
        return None if quote == "<" or name.endswith((".inc", ".def")) or generated(name) else "no such file among ours"
    other = tree.unit(target)
    if other == folder:
        return None
    allowed = MAY_SEE[folder]
    if other == "proto" and "proto:base" in allowed:
        return None if name in PROTO_BASE else f"{folder} sees only {', '.join(sorted(PROTO_BASE))} of proto"
    if other in allowed:
        return None
    if f"{other}:public" in allowed:
        return None if "include" in target.relative_to(tree.root).parts else f"{folder} sees only {other}/include"
    return f"{folder} may not include {other}/"


def generated(name):
    return name in {"kernel_table.h", "kept_list.h", "penstock_config.h"}


def check_includes(tree):
    bad = []
    for path in tree.files:
        for quote, name in tree.includes(path):
            why = complaint(tree, path, quote, name)
            if why:
                bad.append(f"{path.relative_to(tree.root)}: includes {name}: {why}")
    return bad


def check_cycles(tree):
    """Depth-first over headers; a header met again on the way down closes a cycle."""
    state, bad = {}, []

    def visit(path, trail):
        state[path] = "open"
        for _, name in tree.includes(path):
            target = tree.resolve(path, name)
            if target is None or target.suffix != ".h":
                continue
            if state.get(target) == "open":
                loop = trail[trail.index(target):] + [target] if target in trail else [path, target]
                bad.append("header cycle: " + " -> ".join(str(p.relative_to(tree.root)) for p in loop))
            elif target not in state:
                visit(target, trail + [target])
        state[path] = "done"

    for path in tree.files:
        if path.suffix == ".h" and path not in state:
            visit(path, [path])
    return bad


def compile_flags(tree, build):
    """folder -> the include paths and definitions of all its targets together: a folder may have several."""
    flags = {folder: [] for folder in FOLDERS}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        folder = tree.folder(source) if source.is_relative_to(tree.root) else None
        words = iter(entry.get("arguments") or shlex.split(entry["command"]))
        for word in words:
            option = [word, next(words)] if word in ("-isystem", "-I") else [word]
            if not word.startswith(("-I", "-D", "-std=", "-isystem")) or folder not in flags or option in flags[folder]:
                continue
            # One source built several times with other values of a definition (instruction sets): the first serves.
            name = word.split("=")[0]
            if word.startswith("-D") and any(kept[0].split("=")[0] == name for kept in flags[folder]):
                continue
            flags[folder].append(option)
    return {folder: [word for option in options for word in option] for folder, options in flags.items()}


def compile_alone(tree, flags, header):
    kept = flags[tree.folder(header)]
    if not kept:
        return f"{header.relative_to(tree.root)}: nothing of its folder is built"
    public = "include" in header.relative_to(tree.root).parts
    for language, compiler in [("c", "gcc"), ("c++", "g++")] if public else [("c", "gcc")]:
        options = kept if language == "c" else [f for f in kept if not f.startswith("-std=")] + ["-std=c++17"]
        command = [compiler, "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused", "-Werror", *options, "-include", str(header), "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return f"{header.relative_to(tree.root)}: does not compile alone as {language}:\n{done.stderr.strip()}"
    return None


def check_alone(tree, build):
    flags = compile_flags(tree, build)
    headers = [p for p in tree.files if p.suffix == ".h"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [bad for bad in pool.map(lambda h: compile_alone(tree, flags, h), headers) if bad], len(headers)


def check_places(tree):
    """No drawer for what has no owner."""
    return [f"{p.relative_to(tree.root)}: no common/ or util/: a file belongs to an owner"
            for folder in FOLDERS for p in (tree.root / folder).rglob("*") if p.is_dir() and p.name in {"common", "util", "utils", "misc"}]


# The engine compares with this one everywhere: the yardstick is no choice among backends.
YARDSTICK = "reference"


def check_backend_names(tree):
    """A backend's name, alone or before its facts and options, stands in its own folder only: elsewhere its table of functions says what it is."""
    names = {p.name for p in (tree.root / "engine/backend").glob("*") if p.is_dir()} - {YARDSTICK}
    named = re.compile(r'"(%s)["._]' % "|".join(sorted(names) or ["-"]))
    bad = []
    for path in (p for p in tree.files if p.suffix == ".c"):
        code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        bad += [f"{path.relative_to(tree.root)}: says {m.group(0)}: only engine/backend/{m.group(1)} knows this name"
                for m in named.finditer(code) if (tree.root / "engine/backend" / m.group(1)) not in path.parents]
    return bad


def function_sizes(path):
    """(lines, name) of each function: braces at column 0, as the form of the sources has them."""
    name, start = None, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            yield number - start + 1, f"{path.name}:{name}"
            start = None
        elif re.match(r"[a-z].*\(", line):
            name = re.sub(r"\(.*", "", line).split()[-1].lstrip("*")


def print_sizes(tree):
    files = sorted(((len(p.read_text().splitlines()), str(p.relative_to(tree.root))) for p in tree.files), reverse=True)
    sizes = sorted(size for path in tree.files if path.suffix == ".c" for size, _ in function_sizes(path))
    largest = sorted((pair for path in tree.files if path.suffix == ".c" for pair in function_sizes(path)), reverse=True)[:8]
    print(f"{len(files)} files, {sum(n for n, _ in files)} lines; over 600 lines: {[f for n, f in files if n > 600] or 'none'}")
    if sizes:
        print(f"{len(sizes)} functions; median {sizes[len(sizes) // 2]} lines, 90th percentile {sizes[len(sizes) * 9 // 10]}")
        print("largest:", ", ".join(f"{name} {size}" for size, name in largest))


CIRCLE_FOLDERS = ["broker", "worker", "client-lib", "engine"]


def print_circles(root, build):
    absent = rooms.not_built(root, build, CIRCLE_FOLDERS)
    if absent:
        print("\n".join(absent))
        return 1
    for folder in CIRCLE_FOLDERS:
        found = rooms.circles(root, build, folder)
        print(f"{folder}: largest circle {len(found[0]) if found else 1} files, {len(found)} circles")
        for circle in found[:3]:
            print("   ", len(circle), " ".join(path.stem for path in circle))
    return 0


def check_rooms(tree, build):
    roomy = [*FOLDERS, *ROOMY_PROGRAMS]
    bad = rooms.not_built(tree.root, build, [folder for folder in roomy if rooms.rooms_of(tree.root, folder)])
    bad += rooms.foreign_writers(tree) + rooms.unused_functions(tree.root, build, FOLDERS) + rooms.long_circles(tree.root, build)
    bad += rooms.unused_inline(tree) + rooms.long_parameter_lists(tree)
    for folder in roomy:
        bad += rooms.upward_includes(tree, folder) + rooms.upward_symbols(tree.root, build, folder)
        if rooms.rooms_of(tree.root, folder) and not rooms.nested(tree.root, folder):
            bad += rooms.shared_names(tree, folder)
    return bad


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    tree = Tree(root)
    if "--sizes" in sys.argv:
        print_sizes(tree)
        return 0
    if "--circles" in sys.argv:
        return print_circles(root, build)
    alone, headers = check_alone(tree, build)
    complaints = check_includes(tree) + check_cycles(tree) + check_places(tree) + check_backend_names(tree) + check_rooms(tree, build) + alone
    for text in complaints:
        print(text)
    print(f"{len(tree.files)} files checked against the rules, {headers} headers compiled alone")
    print(f"{5 + headers - len(alone) - bool(complaints[:len(complaints) - len(alone)])} passed, {len(complaints)} failed, 0 skipped")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
