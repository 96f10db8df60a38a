"""Rooms: the floors of a folder, bottom to top. A room sees itself and the rooms below it, by includes and by symbols.

The list of a folder's rooms is that of its CMakeLists.txt: lines `room(NAME FILE...)`, the lowest first, or one line `set(rooms NAME...)`, where a room may
stand in another (backend/vulkan above backend). Files beside the rooms are the top floor. Some state has writers of its own (WRITERS). No two structs or enums
of a folder with `room` lines share a name; where rooms stand in one another, they are unlike backends of one contract and may.
"""
import re
import subprocess
from collections import Counter
from functools import lru_cache
from pathlib import Path

TOP = ""  # the folder itself, above its rooms

# Names of libc that a file defines anew: whoever calls them means libc's.
LIBC = {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "aligned_alloc", "malloc_usable_size"}

# (folder, what may be done, in which rooms alone)
WRITERS = [
    ("client-lib", re.compile(r"\bjob->(state|ended) = |\bsession(->|\.)(state|settled) = |\bs->(state|settled) = |\bpending\.(count|bytes|unsent) [-+]?= |\bjob->sends(\+\+| = )"), ("state",)),
    ("broker", re.compile(r"->state = JOB_|\bqueued_bytes [-+]?= |->running(\+\+|--)|broker->live(\+\+|--)|model->users(\+\+|--)"), ("lifecycle",)),
    ("broker", re.compile(r"->(part|begin)\((port|outgoing->port|broker->(clients|workers))\b"), ("outbox", "net", "intake")),
]
# Folder -> how many files of it may need each other in a circle by calls. What recurses through a table may stand beside it: the folder's README says where.
CIRCLE_MOST = {"broker": 5, "worker": 5, "client-lib": 1, "engine/graph": 5, "engine/import/onnx": 5, "engine/import/tfjs": 5, "engine/backend": 1, "engine/run": 5, "engine/library": 1}
# Copies of those figures, for people.
COPIES = {"broker/observe/metrics_snapshot.c"}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DEFINED = re.compile(r"^(?:static )?(struct|enum|union) (\w+) \{", re.M)


def rooms_of(root, folder):
    """The names of its rooms, bottom to top, the folder itself last; None: it has none."""
    lists = root / folder / "CMakeLists.txt"
    text = lists.read_text() if lists.exists() else ""
    names = re.findall(r"^room\((\w+)", text, re.M)
    nested = re.search(r"^set\(rooms ([^)]+)\)", text, re.M)
    names = nested.group(1).split() if nested else names
    return names + [TOP] if names else None


def nested(root, folder):
    return any("/" in name for name in rooms_of(root, folder) or [])


def room_of(root, folder, path):
    """The innermost room that it stands in; beside them all TOP, as are programs: folders with a CMakeLists.txt of their own that are no rooms. A folder that is
    neither by its own name. Public headers belong to the lowest room."""
    parts = path.relative_to(root / folder).parts[:-1]
    rooms = rooms_of(root, folder) or []
    if parts and parts[0] == "include":
        return rooms[0]
    around = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return next((name for name in around if name in rooms), TOP if not parts or of_program(root, folder, path) else parts[0])


def of_program(root, folder, path):
    """Programs of a folder stand above its rooms, in folders with a CMakeLists.txt of their own."""
    parts = path.relative_to(root / folder).parts
    return len(parts) > 1 and parts[0] not in (rooms_of(root, folder) or []) and (root / folder / parts[0] / "CMakeLists.txt").exists()


def stands_in(tree, path, folder):
    """folder: a top folder, or a program in one."""
    return path.is_relative_to(tree.root / folder)


def upward_includes(tree, folder):
    rooms = rooms_of(tree.root, folder)
    if not rooms:
        return []
    bad = []
    for path in (p for p in tree.files if stands_in(tree, p, folder)):
        own = room_of(tree.root, folder, path)
        if own not in rooms:
            bad.append(f"{path.relative_to(tree.root)}: stands in no room that {folder}/CMakeLists.txt lists")
            continue
        for _, name in tree.includes(path):
            target = tree.resolve(path, name)
            if target is None or not stands_in(tree, target, folder):
                continue
            other = room_of(tree.root, folder, target)
            if other in rooms and rooms.index(other) > rooms.index(own):
                bad.append(f"{path.relative_to(tree.root)}: includes {name} of {other or folder + '/ itself'}, a room above its own")
    return bad


def objects_of(root, build, folder):
    """object file -> its source below the folder, of all the targets that the folder builds."""
    found = {}
    for path in sorted((build / folder).rglob("*.c.o")):
        source = root / folder / re.sub(r"^.*?\.dir/", "", str(path.relative_to(build / folder)))[:-2]
        if source.exists():
            found[path] = source
    return found


@lru_cache(maxsize=None)
def symbols_of(build):
    """object file -> (kind, name) of its symbols, of everything that was built: one nm for hundreds of objects."""
    paths, found = [str(path) for path in build.rglob("*.c.o")], {}
    for start in range(0, len(paths), 400):
        lines = subprocess.run(["nm", "-A", *paths[start:start + 400]], capture_output=True, text=True).stdout.splitlines()
        for line in lines:
            path, rest = line.rsplit(":", 1)
            found.setdefault(path, []).append(tuple(rest.split()[-2:]))
    return found


def sanitized(build):
    """Sanitizers leave some tests out, and what those alone need would seem to be of no use."""
    cache = build / "CMakeCache.txt"
    return cache.exists() and re.search(r"^PENSTOCK_SANITIZE:\w+=\w", cache.read_text(), re.M) is not None


def not_built(root, build, folders):
    """Folders with sources and no objects: rules about symbols would hold of nothing."""
    return [f"nothing of {folder}/ is built in {build}: build it first, the rules about calls need its objects"
            for folder in folders if any((root / folder).rglob("*.c")) and not objects_of(root, build, folder)]


def calls_of(root, build, folder, kinds="TDBRC"):
    """(source, source) -> names: who needs which external symbol of whom. kinds: of nm; T = functions alone."""
    objects = objects_of(root, build, folder)
    defined, needed = {}, {}
    for path, source in objects.items():
        for kind, name in symbols_of(build).get(str(path), []):
            if kind == "U":
                needed.setdefault(source, set()).add(name)
            elif kind in kinds:
                defined.setdefault(name, source)
    edges = {}
    for source, names in needed.items():
        for name in names - LIBC:
            if name in defined and defined[name] != source:
                edges.setdefault((source, defined[name]), set()).add(name)
    return edges


def upward_symbols(root, build, folder):
    rooms = rooms_of(root, folder)
    bad = []
    for (source, target), names in sorted(calls_of(root, build, folder).items()) if rooms else []:
        own, other = room_of(root, folder, source), room_of(root, folder, target)
        if own in rooms and other in rooms and rooms.index(other) > rooms.index(own):
            bad.append(f"{source.relative_to(root)}: needs {', '.join(sorted(names))} of {target.relative_to(root)}, a room above its own")
    return bad


def unused_functions(root, build, folders):
    """
    External functions that no object of the whole build needs, tests among them, and that stand once in their own file (comments do not count). A folder
    that has a function of that name itself means its own. Public ones (pen_) are users'.
    """
    defined, needed = {}, {}
    for path, symbols in symbols_of(build).items() if not sanitized(build) else []:
        folder = Path(path).relative_to(build).parts[0]
        for kind, name in symbols:
            if kind == "U":
                needed.setdefault(name, set()).add(folder)
            elif kind == "T" and folder in folders:
                defined[name, folder] = Path(path)
    bad = []
    for (name, folder), path in sorted(defined.items()):
        if name in LIBC or name == "main" or name.startswith(("pen_", "penstock__", "LLVMFuzzer")):
            continue
        if any(other == folder or (name, other) not in defined for other in needed.get(name, ())):
            continue
        parts = re.sub(r"CMakeFiles/[^/]+\.dir/", "", str(path.relative_to(build)))[:-2]
        source = root / parts
        if source.exists() and len(re.findall(rf"\b{name}\b", COMMENT.sub("", source.read_text()))) == 1:
            bad.append(f"{parts}: nobody calls {name}")
    return bad


DECLARED = re.compile(r"^(?![#\s}{])[\w \t*]+?\b(\w+)\(([^;{}]*?)\)\s*[;{]", re.M)
PARAMETERS_MAX = 8


def parameters_of(text):
    """How many parameters the list between a function's parentheses names."""
    depth, count = 0, 1
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        count += letter == "," and depth == 0
    return count


def long_parameter_lists(tree):
    """Functions with more parameters than a reader keeps apart. What a macro in capitals makes is its own business."""
    return [f"{path.relative_to(tree.root)}: {name} has {parameters_of(parameters)} parameters, at most {PARAMETERS_MAX} are allowed: give it a struct"
            for path in tree.files for name, parameters in DECLARED.findall(COMMENT.sub("", path.read_text()))
            if parameters_of(parameters) > PARAMETERS_MAX and not name.isupper()]


INLINE_DEFINED = re.compile(r"^(?:static inline|inline static)\b[\w \t*]*?\b(\w+)\(", re.M)


def unused_inline(tree):
    """Inline functions of a header are in no object unless somebody calls them: their names are looked for in the sources instead, tests among them."""
    everywhere = list(tree.files) + sorted((tree.root / "tests").rglob("*.[ch]"))
    named = Counter(word for path in everywhere for word in re.findall(r"\w+", COMMENT.sub("", path.read_text())))
    return [f"{path.relative_to(tree.root)}: nobody calls {name}" for path in tree.files if path.suffix == ".h"
            for name in INLINE_DEFINED.findall(COMMENT.sub("", path.read_text())) if named[name] == 1]


def foreign_writers(tree):
    bad = []
    for folder, pattern, rooms in WRITERS:
        for path in (p for p in tree.files if tree.folder(p) == folder):
            relative = str(path.relative_to(tree.root))
            if room_of(tree.root, folder, path) in rooms or relative in COPIES:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if pattern.search(line):
                    bad.append(f"{relative}:{number}: writes what only {' '.join(f'{folder}/{room}/' for room in rooms)} may write: {line.strip()}")
    return bad


def shared_names(tree, folder):
    """A struct or enum that two files of the folder define; not its programs, whose commands each have `options`."""
    seen, bad = {}, []
    for path in (p for p in tree.files if stands_in(tree, p, folder) and not of_program(tree.root, folder, p)):
        for kind, name in DEFINED.findall(path.read_text()):
            other = seen.setdefault(name, path)
            if other != path:
                bad.append(f"{kind} {name} is defined in {other.relative_to(tree.root)} and in {path.relative_to(tree.root)}")
    return bad


def circles(root, build, folder):
    """Files that need each other in a circle, by calls: lists of sources, the longest first."""
    next_of = {}
    for source, target in calls_of(root, build, folder, "T"):
        next_of.setdefault(source, set()).add(target)
        next_of.setdefault(target, set())
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(node):  # Tarjan's, without recursion: deep chains are common
        work = [(node, iter(sorted(next_of[node])))]
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        while work:
            at, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on.add(target)
                    work.append((target, iter(sorted(next_of[target]))))
                    break
                if target in on:
                    low[at] = min(low[at], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    circle = []
                    while not circle or circle[-1] != at:
                        circle.append(stack.pop())
                        on.discard(circle[-1])
                    if len(circle) > 1:
                        found.append(sorted(circle))

    for node in sorted(next_of):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda circle: (-len(circle), circle))


def long_circles(root, build):
    bad = []
    for folder, most in CIRCLE_MOST.items():
        for circle in circles(root, build, folder.split("/")[0]):
            ours = [path.stem for path in circle if path.is_relative_to(root / folder)]
            if len(ours) > most:
                bad.append(f"{folder}/: {len(ours)} files need each other in a circle by calls, {most} are the most: {' '.join(ours)}")
    return bad
