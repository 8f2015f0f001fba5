"""Prices of a site's hours: `report.gpu_hour_prices` as data, by type of GPU."""

from collections.abc import Sequence

MOST = 1e9  # a typo's bound, in any currency
ANY = "*"


def price_of(text: str) -> tuple[str, float]:
    """Type and price of `"A100 = 1.8"`. Raises ValueError."""
    name, equals, price = (part.strip() for part in text.rpartition("="))
    value = float(price)
    if not (name and equals and 0 <= value <= MOST):
        raise ValueError(text)
    return name, value


def is_price(item: object) -> bool:
    """True for what `price_of` can read."""
    try:
        return isinstance(item, str) and bool(price_of(item))
    except ValueError:
        return False


def hour_of(model: str | None, prices: Sequence[str]) -> float | None:
    """An hour of this GPU, by the first price whose type is in its model's name; None without."""
    wanted = (model or "").lower()
    candidates = map(price_of, prices)
    return next(
        (price for name, price in candidates if name == ANY or name.lower() in wanted), None
    )
