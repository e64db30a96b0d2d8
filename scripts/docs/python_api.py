"""Prints the public Python API of `tpulab` as Markdown: signatures and docstrings."""

import inspect
import re

import tpulab

WIDTH = 76


def signature(value: object) -> str:
    """In the usual form: annotations without quotes, and a long one with a parameter per line."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    text = str(found).replace("'", "")
    if len(text) <= WIDTH:
        return text
    result = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    star = next((name for name, each in found.parameters.items() if each.kind is each.KEYWORD_ONLY), None)
    lines = [
        f"    {'*, ' if name == star else ''}{str(each).replace(chr(39), '')},"
        for name, each in found.parameters.items()
    ]
    return "\n".join(["(", *lines, f"){result}"])


def text_of(value: object) -> str:
    """The docstring, its sections as headings and their entries as lists."""
    lines = (inspect.getdoc(value) or "").split("\n")
    out: list[str] = []
    for line in lines:
        entry = re.match(r"^ {4}([*\w, ]+): (.*)$", line)
        if re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes):", line):
            out += ["", f"**{line[:-1]}**", ""]
        elif entry:
            out.append(f"- `{entry[1]}`: {entry[2]}")
        else:
            out.append(line.removeprefix("    ") if line.startswith("     ") else line)
    return "\n".join(out).strip()


def documented(name: str, value: object, level: int) -> list[str]:
    kind = "class " if inspect.isclass(value) else ""
    lines = [f"{'#' * level} `{name}`", "", "```python", f"{kind}{name}{signature(value)}", "```", ""]
    text = text_of(value)
    return [*lines, "::: v-pre", text, ":::", ""] if text else lines


def members(name: str, value: type) -> list[str]:
    lines: list[str] = []
    for member, found in vars(value).items():
        if member.startswith("_") or not (inspect.isfunction(found) or isinstance(found, property)):
            continue
        if isinstance(found, property):
            text = inspect.getdoc(found) or ""
            lines += [f"### `{name}.{member}`", "", "::: v-pre", text, ":::", ""]
        elif inspect.getdoc(found):
            lines += documented(f"{name}.{member}", found, 3)
    return lines


def main() -> None:
    print("# Python API\n\nGenerated from the package `tpulab`, which every TPULab kernel has.\n")
    for name in sorted(tpulab.__all__, key=lambda name: (name[0].isupper(), name.lower())):
        value = getattr(tpulab, name)
        if isinstance(value, str):
            continue
        print("\n".join(documented(f"tpulab.{name}", value, 2)))
        if inspect.isclass(value) and not issubclass(value, BaseException):
            print("\n".join(members(name, value)))


main()
