"""Checked data of text, and the text of checked data."""

import json

from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.data import check


def checked(text):
    """Return data that are known as JSON text."""
    return CheckedData.of_values(json.loads(text), text)


def to_json(*arguments, **options):
    """Check data, and return their text."""
    return check(*arguments, **options).text
