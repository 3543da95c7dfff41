"""Arithmetic written out column by column, so that every step needs only one-digit sums.

Each function returns (brief, steps): one compact line, and lines that name the places.
"""

from __future__ import annotations

PLACES = ("ones", "tens", "hundreds", "thousands", "ten-thousands", "hundred-thousands")
Work = tuple[str, list[str]]


def _digits(n: int, width: int) -> list[int]:
    """Digits from the ones upwards, zero-filled."""
    return [int(c) for c in str(n).zfill(width)[::-1]]


def add(a: int, b: int) -> Work:
    """a + b for a, b >= 0."""
    total = f"{a} + {b} = {a + b}"
    if a < 10 and b < 10:
        return total, [total]
    width = max(len(str(a)), len(str(b)))
    brief, steps, carry = [], [], 0
    for place, x, y in zip(PLACES, _digits(a, width), _digits(b, width), strict=False):
        s = x + y + carry
        shown = f"{x}+{y}+{carry}={s}" if carry else f"{x}+{y}={s}"
        brief.append(shown)
        carry = s // 10
        steps.append(f"{place}: {shown}, write {s % 10}" + (", carry 1" if carry else ""))
    if carry:
        steps.append(f"{PLACES[width]}: write 1")
    return f"{a} + {b}: {', '.join(brief)}, so {a + b}", [f"{a} + {b}", *steps, total]


def sub(a: int, b: int) -> Work:
    """a - b for a >= b >= 0."""
    total = f"{a} - {b} = {a - b}"
    if a < 10:
        return total, [total]
    width = len(str(a))
    brief, steps, borrow = [], [], 0
    for place, x, y in zip(PLACES, _digits(a, width), _digits(b, width), strict=False):
        top = x - borrow
        taken = f"{x}-{borrow}" if borrow else f"{x}"
        if top < y:
            shown = f"{taken}+10-{y}={top + 10 - y}"
            steps.append(f"{place}: {shown}, borrow 1")
            borrow = 1
        else:
            shown = f"{taken}-{y}={top - y}"
            steps.append(f"{place}: {shown}")
            borrow = 0
        brief.append(shown)
    return f"{a} - {b}: {', '.join(brief)}, so {a - b}", [f"{a} - {b}", *steps, total]


def _mul_digit(a: int, d: int) -> Work:
    total = f"{a} × {d} = {a * d}"
    if a < 13:
        return total, [total]
    width = len(str(a))
    brief, steps, carry = [], [], 0
    for place, x in zip(PLACES, _digits(a, width), strict=False):
        s = x * d + carry
        shown = f"{x}×{d}+{carry}={s}" if carry else f"{x}×{d}={s}"
        brief.append(shown)
        carry = s // 10
        steps.append(f"{place}: {shown}, write {s % 10}" + (f", carry {carry}" if carry else ""))
    if carry:
        steps.append(f"{PLACES[width]}: write {carry}")
    return f"{a} × {d}: {', '.join(brief)}, so {a * d}", [f"{a} × {d}", *steps, total]


def mul(a: int, b: int) -> Work:
    """a × b for a, b >= 0; the smaller factor has at most two digits."""
    if a < b:
        a, b = b, a
    if b < 13 and (a < 13 or b < 10):
        return _mul_digit(a, b)
    tens, ones = b // 10, b % 10
    brief_t, steps_t = _mul_digit(a, tens)
    high = a * tens * 10
    lift = f"so {a} × {tens * 10} = {high}"
    if not ones:
        return f"{brief_t}, {lift}", [*steps_t, lift]
    brief_o, steps_o = _mul_digit(a, ones)
    brief_s, steps_s = add(high, a * ones)
    plan = f"{a} × {b} = {a} × {tens * 10} + {a} × {ones}"
    brief = f"{brief_t}, {lift}; {brief_o}; {brief_s}"
    return brief, [plan, *steps_t, lift, *steps_o, *steps_s, f"{a} × {b} = {a * b}"]


def div(a: int, b: int) -> Work:
    """a / b by long division, for b dividing a."""
    total = f"{a} / {b} = {a // b}"
    if a < 10:
        return total, [total]
    steps, quotient, rest = [], "", 0
    for c in str(a):
        part = rest * 10 + int(c)
        q = part // b
        rest = part - q * b
        if q or quotient:
            quotient += str(q)
            steps.append(f"{part}: {b}×{q}={b * q}, rest {rest}")
        else:
            steps.append(f"{part}: too small")
    lines = [f"{a} / {b}", *steps, f"digits {' '.join(quotient)}", total]
    return f"{a} / {b}: {'; '.join(s for s in steps if 'small' not in s)}; so {a // b}", lines


def work(a: int, b: int, op: str) -> Work:
    """The work of one operation; op is one of + - × /."""
    return {"+": add, "-": sub, "×": mul, "/": div}[op](a, b)


def result(a: int, b: int, op: str) -> int:
    return {"+": a + b, "-": a - b, "×": a * b, "/": a // b if b else 0}[op]
