"""Image names: `[registry[:port]/]path[:tag][@digest]`, as container registries define them."""

from __future__ import annotations

import re

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG = r"[\w][\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(rf"((?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::({_TAG}))?(?:@({_DIGEST}))?", re.ASCII)
_PLACEHOLDER = re.compile(r"<[^<>]*>|\$\{([^{}]*)\}|\{\{.*?\}\}|\$\([^()]*\)")


def image_fault(image: str) -> tuple[str, str]:
    """Return a message and a hint about an image name; two empty strings if it is valid."""
    if placeholder := _PLACEHOLDER.search(image):
        name = placeholder[1]
        advice = f"pass -p {name}=..., or write the name of the image" if name else "write the name of the image"
        return f"{image!r} still contains the placeholder {placeholder[0]}", advice
    match = _REFERENCE.fullmatch(image)
    if match and len(match[1]) <= 255:
        return "", ""
    if match:
        return f"the name of the image is {len(match[1])} characters long, but the maximum is 255", ""
    return f"{image!r} is not a valid image name", _advice(image)


def _advice(image: str) -> str:
    if image != image.strip() or " " in image:
        return "remove the spaces"
    if "://" in image:
        return f"remove {image.split('://')[0]}://"
    if image.endswith(":"):
        return "add a tag after ':', or remove the ':'"
    if _REFERENCE.fullmatch(image.lower()):
        folder, slash, name = image.rpartition("/")
        name, colon, tag = name.partition(":")
        return f"write the repository in lowercase: {(folder + slash + name).lower()}{colon}{tag}"
    return "use the form registry/path:tag, in lowercase up to the tag"
