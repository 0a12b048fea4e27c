# The inner loop. `just` is a command runner: `pip install rust-just`, or your system's package.
# Recipes run with the environment that is active; `just setup` makes one.

# List the recipes.
default:
    @just --list

# Make .venv with everything that development needs, in the versions of CI.
setup:
    python3 -m venv .venv
    .venv/bin/pip install -q -c .ci/constraints.txt -e '.[dev]'

# Lint, format, types, layers, complexity, docstrings: under 15 s.
check:
    bash .ci/check

# Mend what lint and format can mend by themselves.
format:
    ruff check --fix .
    ruff format .

# All tests but the studies: under 3 minutes on two cores. `just test tests/frames -k kernels` runs some.
test *arguments:
    python -m pytest {{arguments}}

# The long studies: false alarms of the gate, fuzzing, endurance, hostile names at full length.
studies:
    python -m pytest -m study

# What is generated: docs/, the README's output, the schemas.
renew:
    python docs/renew.py

# The site of docs/, in site/: open site/index.html. `pip install -c .ci/constraints.txt '.[docs]'` has what it needs.
docs:
    NO_MKDOCS_2_WARNING=1 mkdocs build --strict

# Compare the JSON of the real traces with another checkout: `just identity ../before ../shared/traces`.
identity before +folders:
    python tests/studies/identity.py {{before}} . {{folders}}

# Lines of code.
lines:
    python tests/studies/lines.py advisor examples/ladder

# Renew the versions that CI installs, and the hashes of those that the action does.
lock:
    pip install -q uv
    uv pip compile pyproject.toml --extra dev --extra docs --universal --python-version 3.11 --no-header --no-annotate -q -o .ci/constraints.txt
    echo 'hatchling==1.33.0' >> .ci/constraints.txt
    echo hatchling | uv pip compile pyproject.toml - --universal --python-version 3.11 -c .ci/constraints.txt --generate-hashes --no-header --no-annotate -q -o .ci/runtime.txt

# Everything that must hold before a change lands.
all:
    bash .ci/run
