"""A case of conformance is only there for the levels that it is asked of."""

from __future__ import annotations

from support.conformance.selection import pytest_collection_modifyitems as pytest_collection_modifyitems
