"""The street plan as a contract: rooms, layers, sizes, the diagram and the stations in the docs.

`docs/architecture.md` draws the layers in one or more Mermaid blocks:

    ```mermaid
    flowchart TD
        annotation.results["annotation.results<br>people and judge together"]
        annotation.results --> annotation.rounds --> judging.runs
    ```

A node's id is the full name of a layer's module; its label is free. An arrow leads from each
module of a layer to each module of the layer below it. Lines that begin with `subgraph`, `end`,
`direction`, `classDef`, `class`, `style` or `%%` are for the picture only.

A station in the docs is inline code: `judging/runs/pump.py`, `judging/runs/pump.py:Pump.work`,
`judging/runs/pump.py:68` or, as `make walks` prints it, `judging/runs/pump.py:68 Pump.work`.
"""

import ast
import re
import tomllib
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import grimp
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("annotation", "fairjudge_site", "judging")
# As for lines below: a later feature states the rooms that it needs.
MODULES_ALLOWED = {
    "the street plan": 311,
    "teams and crowds": 8,
    "conversations": 1,
    "typed files and wide rows": 5,
    "an operator who can sleep": 2,
    "tools with one response a row": 1,
    "personal data": 1,
    "images": 2,
    "teams": 1,
    "training, qualification and repeats": 2,
    "sample sizes": 3,
    "long work by program": 2,
    "mail and retention": 6,
    "single sign-on, second factors and sessions": 6,
    "what votes say in addition": 3,
    "reports as PDF, and plans registered before people vote": 6,
    "judges that people teach": 5,
    "the cheapest plan": 5,
    "models of votes, and why people disagree with the judge": 5,
    "languages": 1,
    "several machines, alerts and traces": 3,
}
# What the house of the street plan may have, and what each feature after it may add. State the
# price of a new feature here; nothing else raises the sum. Comments and docstrings are not counted.
LINES_ALLOWED = {
    "the street plan": 43_050,
    "holes, journals and intervals": 1_500,
    "pages that answer": 2_570,
    "open to programs": 5_000,
    "real data": 4_000,
    "an operator who can sleep": 1_000,
    "teams and crowds": 2_060,
    "files of other tools": 1_000,
    "conversations": 800,
    "criteria": 800,
    "typed files and wide rows": 1_700,
    "sharper estimates": 500,
    "attention checks that act": 1_000,
    "a second hard look, and fresh eyes": 490,
    "rules from criteria, replies by a schema, marked prefixes": 500,
    "tools with one response a row": 550,
    "labels that judges may keep": 400,
    "forms of pages as operations": 1_100,
    "personal data": 190,
    "images": 1_000,
    "teams": 970,
    "training, qualification and repeats": 1_320,
    "sample sizes": 740,
    "long work by program": 420,
    "two readers, and more files of other tools": 330,
    "mail and retention": 1_430,
    "single sign-on, second factors and sessions": 1_715,
    "what votes say in addition": 920,
    "many workers on one run": 560,
    "texts that are removed on a day, and names next to lines": 230,
    "reports as PDF, and plans registered before people vote": 1_790,
    "judges that people teach": 1_560,
    "the cheapest plan": 2_120,
    "models of votes, and why people disagree with the judge": 1_420,
    "languages": 760,
    "simulated annotators, and clauses in one step": 470,
    "what more tools write, and hostile sheets": 170,
    "hashes in backups": 130,
    "kept counts of large projects": 290,
    "crowd texts in languages": 90,
    "several machines, alerts and traces": 1_180,
}
MOST_MODULES_IN_A_FOLDER = 30
LEAST_SENTENCES_OF_A_ROOM = 2
# One layer for all of it would place every module and say nothing.
HAVE_LAYERS_WITHIN = {"annotation", "judging"}
# Django gives these folders their names and their places.
DJANGO_FOLDERS = {"commands", "management", "migrations", "templatetags"}
WAKING = "judging/core/waking.py"
# Which queue a task belongs to is configuration, and Celery wants it by name.
ROUTES = "fairjudge_site/settings.py"
SQL_ROOM = "judging/core/sql/"
BY_HAND = {"cursor", "execute", "executemany", "raw", "extra", "RawSQL"}
# A lock, backups, the move to another database, its health and its size.
ABOUT_THE_WHOLE_DATABASE = {
    "judging/core/commands.py", "fairjudge_site/backups.py", "fairjudge_site/moving.py",
    "fairjudge_site/health.py", "fairjudge_site/status.py",
}  # fmt: skip
PAGES = ("README.md", "docs/architecture.md")
DIAGRAM = "docs/architecture.md"

Contract = list[list[str]]


@cache
def product_files() -> tuple[Path, ...]:
    """Return every module without the migrations, as a path from the root."""
    files = (path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    return tuple(sorted(path for path in files if "migrations" not in path.parts))


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@cache
def import_graph() -> grimp.ImportGraph:
    """Imports inside functions and for type checking are in it, migrations are not."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    for name in graph.modules:
        if ".migrations" in name:
            graph.remove_module(name)
    return graph


@cache
def linter_options() -> dict:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["tool"]["importlinter"]


def layers_contracts(options: dict) -> list[Contract]:
    """Return each contract as its layers from the top, each a list of full module names."""
    contracts = []
    for contract in options["contracts"]:
        if contract["type"] == "layers":
            for container in contract.get("containers", [""]):
                prefix = f"{container}." if container else ""
                layers = [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]
                contracts.append([[prefix + name.strip("() ") for name in row] for row in layers])
    return contracts


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def stray_modules(imports: dict[str, set[str]], contracts: list[Contract]) -> list[str]:
    """Return the modules that stand in no layer.

    A layer that other layers divide places nothing by itself. The `__init__` of a package that is
    divided is in its place if it imports nothing.

    Args:
        imports: for each module the modules that it imports.
    """
    named = {name for contract in contracts for layer in contract for name in layer}
    divided = HAVE_LAYERS_WITHIN | {
        name for name in named for other in named if name != other and is_within(other, name)
    }
    places = named - divided
    above = {name for name in imports for place in places if is_within(place, name)} - places
    return sorted(
        name
        for name, imported in imports.items()
        if not any(is_within(name, place) for place in places)
        and not (name in above and not imported)
    )


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return each group of modules that import each other, directly or through others."""
    names = sorted(imports)
    index = {name: i for i, name in enumerate(names)}
    edges = [(index[name], index[other]) for name in names for other in imports[name]]
    if not edges:
        return []
    sources, targets = zip(*edges, strict=True)
    shape = (len(names), len(names))
    matrix = coo_array(([1] * len(edges), (sources, targets)), shape=shape)
    _, groups = connected_components(matrix, directed=True, connection="strong")
    members: dict[int, list[str]] = {}
    for name, group in zip(names, groups, strict=True):
        members.setdefault(group, []).append(name)
    return [group for group in members.values() if len(group) > 1 or group[0] in imports[group[0]]]


def crowded_folders(files: list[Path], most: int) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for path in files:
        if path.name != "__init__.py":
            sizes[str(path.parent)] = sizes.get(str(path.parent), 0) + 1
    return {folder: size for folder, size in sizes.items() if size > most}


def lines_to_follow(path: Path) -> int:
    """Return the lines of a module apart from docstrings and comments, which may grow.

    Both explain the rest, so that a limit on them would make the house harder to read.
    """
    tree = parsed(path)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    strings = [
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
    ]
    explained = sum(string.end_lineno - string.lineno + 1 for string in strings)
    lines = (ROOT / path).read_text("utf-8").splitlines()
    return sum(not line.lstrip().startswith("#") for line in lines) - explained


def is_enough(docstring: str) -> bool:
    """Return True if the docstring has as many sentences as that of a room needs."""
    return len(re.findall(r"\w\W*?[.!?](?=\s|$)", docstring)) >= LEAST_SENTENCES_OF_A_ROOM


def arrows_between(contracts: list[Contract]) -> set[tuple[str, str]]:
    return {
        arrow
        for contract in contracts
        for upper, lower in pairwise(contract)
        for arrow in product(upper, lower)
    }


def drawn(page: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the nodes and the arrows of all flowcharts of a page.

    Raises:
        ValueError: if a line of a flowchart is neither a node nor a chain of arrows.
    """
    nodes: set[str] = set()
    arrows: set[tuple[str, str]] = set()
    for block in re.findall(r"^```mermaid\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        kind, *lines = block.strip().splitlines()
        if not re.match(r"(flowchart|graph)\b", kind):
            continue
        for line in map(str.strip, lines):
            if not line or re.match(r"(subgraph|end|direction|classDef|class|style)\b|%%", line):
                continue
            bare = re.sub(r'\["[^"]*"\]', "", line).rstrip(";")
            chain = [name.strip() for name in bare.split("-->")]
            if not all(re.fullmatch(r"[a-z_]\w*(\.\w+)*", name) for name in chain):
                raise ValueError(f"not a node and not a chain of arrows: {line}")
            nodes |= set(chain)
            arrows |= set(pairwise(chain))
    return nodes, arrows


def definitions(tree: ast.Module) -> dict[str, int]:
    """Return the line of each function, class and method by its qualified name."""
    lines: dict[str, int] = {}

    def collect(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                lines[prefix + child.name] = child.lineno
                within = "" if isinstance(child, ast.ClassDef) else "<locals>."
                collect(child, f"{prefix}{child.name}.{within}")
            else:
                collect(child, prefix)

    collect(tree, "")
    return lines


STATION = re.compile(r"`([\w./-]+\.py)(?::(\d+))?(?:[: ]([\w.<>]+))?`")


def missing_stations(page: str, root: Path) -> list[str]:
    """Return the named stations that are not there. A bare file name is looked for in the folder
    of the path that was named before it, too."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    folder, missing = root, []
    for match in STATION.finditer(text):
        path, line, name = match.groups()
        places = [root / path, *([folder / path] if "/" not in path else [])]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            missing.append(match[0])
            continue
        if "/" in path:
            folder = file.parent
        source = file.read_text(encoding="utf-8")
        defined = definitions(ast.parse(source))
        if name and name not in defined:
            missing.append(match[0])
        elif name and line and defined[name] != int(line):
            missing.append(f"{match[0]}: it is in line {defined[name]}")
        elif line and int(line) > len(source.splitlines()):
            missing.append(match[0])
    return missing


def is_task(decorator: ast.expr) -> bool:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")
    return name in ("shared_task", "task")


def task_names(trees: dict[str, ast.Module]) -> set[str]:
    """Return the names of all Celery tasks: their own, or those that their decorators give."""
    names = set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in filter(is_task, node.decorator_list):
                    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
                    given = [word.value for word in keywords if word.arg == "name"]
                    names |= {value.value for value in given if isinstance(value, ast.Constant)}
                    if not given:
                        names.add(f"{module_name(Path(path))}.{node.name}")
    return names


def tasks_by_name(trees: dict[str, ast.Module]) -> list[str]:
    """Return the places that send a task by a string, or name one, outside the wake-up module."""
    names = task_names(trees)
    places = []
    for path, tree in trees.items():
        if path == WAKING:
            continue
        declared = {
            id(word.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for decorator in filter(is_task, node.decorator_list)
            for word in getattr(decorator, "keywords", [])
        }
        for node in ast.walk(tree):
            sends = isinstance(node, ast.Attribute | ast.Name | ast.alias) and "send_task" in (
                getattr(node, "attr", ""),
                getattr(node, "id", ""),
                getattr(node, "name", ""),
            )
            names_one = (
                isinstance(node, ast.Constant)
                and node.value in names
                and id(node) not in declared
                and path != ROUTES
            )
            if sends or names_one:
                places.append(f"{path}:{node.lineno}")
    return places


def sql_modules(trees: dict[str, ast.Module]) -> list[str]:
    """Return the modules that open a cursor or give the ORM a text of SQL."""
    return [
        path
        for path, tree in trees.items()
        if any(
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) in BY_HAND
            for node in ast.walk(tree)
        )
    ]


def names_of_two_classes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Return the names that two modules give to a class. Django names those of commands."""
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name != "Command":
                places.setdefault(node.name, []).append(path)
    return {name: where for name, where in places.items() if len(where) > 1}


def product_imports() -> dict[str, set[str]]:
    graph = import_graph()
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_the_import_graph_holds_every_module():
    assert import_graph().modules == {module_name(path) for path in product_files()}


def test_every_module_is_in_a_layer():
    assert stray_modules(product_imports(), layers_contracts(linter_options())) == []


def test_every_layer_is_a_module():
    named = {name for row in layers_contracts(linter_options()) for layer in row for name in layer}
    assert named - set(import_graph().modules) == set()


def test_no_modules_import_each_other_in_a_circle():
    assert circles(product_imports()) == []


def test_no_layer_joins_siblings():
    contracts = [each for each in linter_options()["contracts"] if each["type"] == "layers"]
    assert [layer for each in contracts for layer in each["layers"] if ":" in layer] == []


def test_no_folder_is_crowded():
    assert crowded_folders(product_files(), MOST_MODULES_IN_A_FOLDER) == {}


def test_there_are_few_modules():
    assert len(product_files()) <= sum(MODULES_ALLOWED.values())


def test_the_code_is_short():
    assert sum(map(lines_to_follow, product_files())) <= sum(LINES_ALLOWED.values())


def test_every_room_says_what_belongs_in_it():
    rooms = {path.parent for path in product_files()}
    rooms = {room for room in rooms if room.name not in DJANGO_FOLDERS}
    assert [
        str(room) for room in sorted(rooms) if not (ROOT / room / "__init__.py").is_file()
    ] == []
    docstrings = {room: ast.get_docstring(parsed(room / "__init__.py")) or "" for room in rooms}
    assert [str(room) for room, text in sorted(docstrings.items()) if not is_enough(text)] == []


def test_the_diagram_draws_the_layers():
    contracts = layers_contracts(linter_options())
    nodes, arrows = drawn((ROOT / DIAGRAM).read_text(encoding="utf-8"))
    assert nodes == {name for contract in contracts for layer in contract for name in layer}
    assert arrows == arrows_between(contracts)


@pytest.mark.parametrize("page", PAGES)
def test_every_station_is_there(page):
    assert missing_stations((ROOT / page).read_text(encoding="utf-8"), ROOT) == []


def test_only_one_module_wakes_tasks_by_name():
    assert tasks_by_name({str(path): parsed(path) for path in product_files()}) == []


def test_hand_made_sql_is_in_one_room():
    trees = {str(path): parsed(path) for path in product_files()}
    elsewhere = {path for path in sql_modules(trees) if not path.startswith(SQL_ROOM)}
    assert elsewhere == ABOUT_THE_WHOLE_DATABASE


def test_each_class_has_a_name_of_its_own():
    assert names_of_two_classes({str(path): parsed(path) for path in product_files()}) == {}


# The checks themselves, on plans that are made up.

PLAN = [
    [["site"], ["judging"]],
    [["judging.runs"], ["judging.llm", "judging.methods"], ["judging.core"]],
]
IMPORTS: dict[str, set[str]] = {
    "site": {"judging.runs"},
    "site.urls": set(),
    "judging": set(),
    "judging.runs": {"judging.core"},
    "judging.runs.pump": {"judging.llm"},
    "judging.llm": set(),
    "judging.methods": set(),
    "judging.core": set(),
}


def test_a_stray_module_is_found():
    assert stray_modules(IMPORTS, PLAN) == []
    assert stray_modules(IMPORTS | {"judging.stray": set()}, PLAN) == ["judging.stray"]
    assert stray_modules(IMPORTS | {"judging.run": set()}, PLAN) == ["judging.run"]
    assert stray_modules(IMPORTS | {"other.stray": set()}, PLAN) == ["other.stray"]
    assert stray_modules(IMPORTS | {"judging": {"judging.runs"}}, PLAN) == ["judging"]
    # One layer for a whole package that has rooms places nothing.
    assert stray_modules({"annotation.queue": set()}, [["annotation"]]) == ["annotation.queue"]


def test_contracts_are_read_with_their_containers():
    options = {
        "contracts": [
            {"type": "layers", "containers": ["judging"], "layers": ["runs", "(llm) | methods"]},
            {"type": "forbidden", "source_modules": ["judging"]},
        ]
    }
    assert layers_contracts(options) == [[["judging.runs"], ["judging.llm", "judging.methods"]]]


def test_a_circle_is_found():
    assert circles(IMPORTS) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles({"a": {"a"}}) == [["a"]]


def test_imports_inside_functions_count(tmp_path, monkeypatch):
    folder = tmp_path / "made_up_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "upper.py").write_text("from made_up_package import lower\n")
    (folder / "lower.py").write_text("def f():\n    from made_up_package.upper import g\n")
    monkeypatch.syspath_prepend(tmp_path)
    graph = grimp.build_graph("made_up_package", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert circles(imports) == [["made_up_package.lower", "made_up_package.upper"]]


def test_a_crowded_folder_is_found():
    files = [Path(f"room/{name}.py") for name in ("__init__", "a", "b")]
    assert crowded_folders(files, 2) == {}
    assert crowded_folders([*files, Path("room/c.py")], 2) == {"room": 3}


def test_a_room_without_a_sentence_is_found():
    assert is_enough("What people say (their votes). What the judge says is elsewhere.")
    assert not is_enough("")
    assert not is_enough("What people say (their votes).")
    assert not is_enough("Votes of model 1.5 and of judging.runs")


def test_a_diagram_is_read():
    page = """
```mermaid
flowchart TD
    %% people above judges
    subgraph people
        annotation.results["results<br>both --> together"]
    end
    annotation.results --> judging.runs["runs"] --> judging.core;
```
```mermaid
flowchart LR
    annotation.results --> judging.llm
```
"""
    nodes, arrows = drawn(page)
    assert nodes == {"annotation.results", "judging.runs", "judging.core", "judging.llm"}
    assert arrows == {
        ("annotation.results", "judging.runs"),
        ("judging.runs", "judging.core"),
        ("annotation.results", "judging.llm"),
    }
    with pytest.raises(ValueError, match="not a node"):
        drawn("```mermaid\nflowchart TD\n  a -.-> b\n```")


def test_arrows_lead_to_every_module_of_the_layer_below():
    assert arrows_between(PLAN) == {
        ("site", "judging"),
        ("judging.runs", "judging.llm"),
        ("judging.runs", "judging.methods"),
        ("judging.llm", "judging.core"),
        ("judging.methods", "judging.core"),
    }


def test_a_missing_station_is_found(tmp_path):
    (tmp_path / "room").mkdir()
    code = "class Pump:\n    @property\n    def work(self):\n        def inner(): ...\n"
    (tmp_path / "room" / "pump.py").write_text(code)
    there = (
        "`room/pump.py` `pump.py` `room/pump.py:Pump.work` `room/pump.py:4` "
        "`room/pump.py:3 Pump.work` `room/pump.py:Pump.work.<locals>.inner`"
    )
    assert missing_stations(there, tmp_path) == []
    for station in ("`pump.py`", "`room/pipe.py`", "`room/pump.py:5`", "`room/pump.py:pump`"):
        assert missing_stations(station, tmp_path) == [station]
    (moved,) = missing_stations("`room/pump.py:2 Pump.work`", tmp_path)
    assert moved.endswith("it is in line 3")


def test_a_task_that_is_sent_by_its_name_is_found():
    sources = {
        "judging/tasks.py": "@shared_task\ndef pump(): ...",
        "judging/old.py": "@app.task(name='old.name')\ndef pump(): ...",
        WAKING: "current_app.send_task('judging.tasks.pump')",
        ROUTES: "ROUTES = {'judging.tasks.pump': 'runs'}",
    }
    trees = {path: ast.parse(source) for path, source in sources.items()}
    assert task_names(trees) == {"judging.tasks.pump", "old.name"}
    assert tasks_by_name(trees) == []
    for source in ("app.send_task(X)", "T = 'old.name'", "from x import send_task"):
        assert tasks_by_name(trees | {"judging/a.py": ast.parse(source)}) == ["judging/a.py:1"]


def test_sql_by_hand_is_found():
    by_hand = ("connection.cursor()", "Run.objects.raw(SQL)", "rows.annotate(n=RawSQL(SQL, []))")
    trees = {text: ast.parse(text) for text in (*by_hand, "rows.filter(raw=1)", "row.raw")}
    assert sql_modules(trees) == list(by_hand)


def test_a_name_of_two_classes_is_found():
    trees = {"a.py": ast.parse("class Plan: ..."), "b.py": ast.parse("class Plan: ...")}
    assert names_of_two_classes(trees) == {"Plan": ["a.py", "b.py"]}
    assert names_of_two_classes({"a.py": trees["a.py"]}) == {}
    assert names_of_two_classes({"a.py": ast.parse("class A:\n  class Meta: ...")}) == {}
