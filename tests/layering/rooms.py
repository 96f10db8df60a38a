"""Rooms: the floors of a folder, bottom to top. A room sees itself and the rooms below it, by includes and by symbols.

The list of a folder's rooms is that of its CMakeLists.txt: lines `room(NAME FILE...)`, the lowest first; files beside them are the top floor. Some state has
writers of its own (WRITERS), and no two structs or enums of a folder share a name.
"""
import re
import subprocess
from functools import lru_cache
from pathlib import Path

TOP = ""  # the folder itself, above its rooms

# Names of libc that a file defines anew: whoever calls them means libc's.
LIBC = {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "aligned_alloc", "malloc_usable_size"}

# (folder, what may be done, in which rooms alone)
WRITERS = [
    ("broker", re.compile(r"->state = JOB_|\bqueued_bytes [-+]?= |->running(\+\+|--)|broker->live(\+\+|--)|model->users(\+\+|--)"), ("lifecycle",)),
    ("broker", re.compile(r"->(part|begin)\((port|outgoing->port|broker->(clients|workers))\b"), ("outbox", "net", "intake")),
]
# Copies of those figures, for people.
COPIES = {"broker/observe/metrics_snapshot.c"}

DEFINED = re.compile(r"^(?:static )?(struct|enum|union) (\w+) \{", re.M)


def rooms_of(root, folder):
    """The names of its rooms, bottom to top, the folder itself last; None: it has none."""
    lists = root / folder / "CMakeLists.txt"
    names = re.findall(r"^room\((\w+)", lists.read_text(), re.M) if lists.exists() else []
    return names + [TOP] if names else None


def room_of(root, folder, path):
    """The folder below `folder` that it stands in. Public headers belong to the lowest room."""
    parts = path.relative_to(root / folder).parts
    if len(parts) > 1 and parts[0] == "include":
        return rooms_of(root, folder)[0]
    return parts[0] if len(parts) > 1 else TOP


def upward_includes(tree, folder):
    rooms = rooms_of(tree.root, folder)
    if not rooms:
        return []
    bad = []
    for path in (p for p in tree.files if tree.folder(p) == folder):
        own = room_of(tree.root, folder, path)
        if own not in rooms:
            bad.append(f"{path.relative_to(tree.root)}: stands in no room that {folder}/CMakeLists.txt lists")
            continue
        for _, name in tree.includes(path):
            target = tree.resolve(path, name)
            if target is None or tree.folder(target) != folder:
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
    """External functions that no object of the whole build needs, tests among them, and that stand once in their own file. Public ones (pen_) are users'."""
    defined, needed = {}, set()
    for path, symbols in symbols_of(build).items() if not sanitized(build) else []:
        for kind, name in symbols:
            if kind == "U":
                needed.add(name)
            elif kind == "T" and Path(path).relative_to(build).parts[0] in folders:
                defined[name] = Path(path)
    bad = []
    for name in sorted(set(defined) - needed - LIBC):
        if name == "main" or name.startswith(("pen_", "penstock__", "LLVMFuzzer")):
            continue
        parts = re.sub(r"CMakeFiles/[^/]+\.dir/", "", str(defined[name].relative_to(build)))[:-2]
        source = root / parts
        if source.exists() and len(re.findall(rf"\b{name}\b", source.read_text())) == 1:
            bad.append(f"{parts}: nobody calls {name}")
    return bad


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
    """A struct or enum that two files of the folder define."""
    seen, bad = {}, []
    for path in (p for p in tree.files if tree.folder(p) == folder):
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
