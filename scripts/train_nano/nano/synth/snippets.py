"""Small generated functions and classes, with names that vary."""

from __future__ import annotations

import re

from attrs import frozen

from .gen import Function, Gen


@frozen
class Snippet:
    """A function, what it does ("adds two numbers"), and whether its name was asked for."""

    function: Function
    task: str

    @property
    def kind(self) -> str:
        return "class" if self.function.source.startswith("class") else "function"


# name | task | summary | source. X a scalar, L a list, S a string, A an accumulator, D a mapping, 7 a number.
TEMPLATES = r"""
add|adds two numbers|Add two numbers.|def N(a, b):\n    return a + b
subtract|subtracts two numbers|Subtract b from a.|def N(a, b):\n    return a - b
multiply|multiplies two numbers|Multiply two numbers.|def N(a, b):\n    return a * b
divide|divides two numbers and returns None for a zero divisor|Divide a by b.|def N(a, b):\n    if b == 0:\n        return None\n    return a / b
square|returns the square of a number|Return the square.|def N(X):\n    return X * X
cube|returns the cube of a number|Return the cube.|def N(X):\n    return X ** 3
is_even|checks if a number is even|Return True if even.|def N(X):\n    return X % 2 == 0
is_odd|checks if a number is odd|Return True if odd.|def N(X):\n    return X % 2 == 1
is_positive|checks if a number is positive|Return True if positive.|def N(X):\n    return X > 0
sign|returns the sign of a number|Return -1, 0 or 1.|def N(X):\n    if X > 0:\n        return 1\n    if X < 0:\n        return -1\n    return 0
factorial|computes the factorial of a number|Return the factorial.|def N(X):\n    A = 1\n    for i in range(2, X + 1):\n        A *= i\n    return A
factorial_rec|computes the factorial recursively|Return the factorial.|def N(X):\n    if X <= 1:\n        return 1\n    return X * N(X - 1)
power|raises a number to a power with a loop|Return base to the exponent.|def N(base, exponent):\n    A = 1\n    for _ in range(exponent):\n        A *= base\n    return A
fibonacci|returns the n-th Fibonacci number|Return the n-th Fibonacci number.|def N(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a
fibonacci_list|returns the first n Fibonacci numbers|Return n Fibonacci numbers.|def N(n):\n    A = []\n    a, b = 0, 1\n    while len(A) < n:\n        A.append(a)\n        a, b = b, a + b\n    return A
sum_list|sums a list of numbers|Sum the list.|def N(L):\n    A = 0\n    for X in L:\n        A += X\n    return A
product|multiplies all numbers of a list|Return the product.|def N(L):\n    A = 1\n    for X in L:\n        A *= X\n    return A
average|computes the average of a list|Return the mean.|def N(L):\n    if not L:\n        return 0\n    return sum(L) / len(L)
median|finds the median of a list|Return the median.|def N(L):\n    ordered = sorted(L)\n    middle = len(ordered) // 2\n    if len(ordered) % 2:\n        return ordered[middle]\n    return (ordered[middle - 1] + ordered[middle]) / 2
find_max|finds the maximum of a list|Return the largest element.|def N(L):\n    best = L[0]\n    for X in L:\n        if X > best:\n            best = X\n    return best
find_min|finds the minimum of a list|Return the smallest element.|def N(L):\n    best = L[0]\n    for X in L:\n        if X < best:\n            best = X\n    return best
index_of|finds the position of a value in a list|Return the index or -1.|def N(L, target):\n    for i, X in enumerate(L):\n        if X == target:\n            return i\n    return -1
contains|checks if a list contains a value|Return True if the value is there.|def N(L, target):\n    for X in L:\n        if X == target:\n            return True\n    return False
count_item|counts how often a value occurs in a list|Count a value.|def N(L, target):\n    A = 0\n    for X in L:\n        if X == target:\n            A += 1\n    return A
last_item|returns the last element of a list|Return the last element.|def N(L):\n    return L[-1]
first_items|returns the first n elements of a list|Return the first n elements.|def N(L, n):\n    return L[:n]
reverse_list|reverses a list|Return the list backwards.|def N(L):\n    return L[::-1]
reverse_string|reverses a string|Reverse a string.|def N(S):\n    return S[::-1]
is_palindrome|checks if a string is a palindrome|Return True for a palindrome.|def N(S):\n    cleaned = S.lower()\n    return cleaned == cleaned[::-1]
count_vowels|counts the vowels in a string|Count the vowels.|def N(S):\n    A = 0\n    for ch in S:\n        if ch in "aeiou":\n            A += 1\n    return A
count_words|counts the words in a text|Count the words.|def N(S):\n    return len(S.split())
longest_word|finds the longest word of a text|Return the longest word.|def N(S):\n    return max(S.split(), key=len)
capitalize_words|capitalizes every word of a text|Capitalize the words.|def N(S):\n    return " ".join(word.capitalize() for word in S.split())
remove_spaces|removes all spaces from a string|Remove spaces.|def N(S):\n    return S.replace(" ", "")
repeat_string|repeats a string n times|Repeat a string.|def N(S, n):\n    return S * n
is_anagram|checks if two strings are anagrams|Return True for anagrams.|def N(a, b):\n    return sorted(a) == sorted(b)
word_counts|counts how often each word occurs|Count each word.|def N(S):\n    D = {}\n    for word in S.split():\n        D[word] = D.get(word, 0) + 1\n    return D
letter_counts|counts how often each letter occurs|Count each letter.|def N(S):\n    D = {}\n    for ch in S:\n        D[ch] = D.get(ch, 0) + 1\n    return D
filter_even|keeps only the even numbers of a list|Keep the even numbers.|def N(L):\n    return [X for X in L if X % 2 == 0]
filter_positive|keeps only the positive numbers of a list|Keep the positive numbers.|def N(L):\n    return [X for X in L if X > 0]
larger_than|keeps the numbers larger than a limit|Keep numbers above the limit.|def N(L, limit=7):\n    return [X for X in L if X > limit]
scale|multiplies every element of a list by 7|Multiply each element by 7.|def N(L):\n    return [X * 7 for X in L]
shift|adds 7 to every element of a list|Add 7 to each element.|def N(L):\n    return [X + 7 for X in L]
squares|returns the squares of a list|Square each element.|def N(L):\n    return [X ** 2 for X in L]
to_strings|converts every element of a list to a string|Convert to strings.|def N(L):\n    return [str(X) for X in L]
flatten|flattens a list of lists|Flatten a nested list.|def N(L):\n    A = []\n    for row in L:\n        for X in row:\n            A.append(X)\n    return A
unique|removes duplicates from a list|Remove duplicates and keep the order.|def N(L):\n    seen = set()\n    A = []\n    for X in L:\n        if X not in seen:\n            seen.add(X)\n            A.append(X)\n    return A
chunks|splits a list into pieces of n elements|Split into chunks.|def N(L, n=7):\n    return [L[i:i + n] for i in range(0, len(L), n)]
merge|merges two sorted lists|Merge two sorted lists.|def N(a, b):\n    A = []\n    while a and b:\n        A.append(a.pop(0) if a[0] < b[0] else b.pop(0))\n    return A + a + b
common|returns the elements that two lists share|Return shared elements.|def N(a, b):\n    return [X for X in a if X in b]
zip_lists|pairs the elements of two lists|Pair the elements.|def N(a, b):\n    return list(zip(a, b))
clamp|clamps a number to a range|Limit a number to a range.|def N(X, low=0, high=7):\n    if X < low:\n        return low\n    if X > high:\n        return high\n    return X
is_prime|checks if a number is prime|Return True for a prime.|def N(n):\n    if n < 2:\n        return False\n    for i in range(2, int(n ** 0.5) + 1):\n        if n % i == 0:\n            return False\n    return True
primes|lists the primes below n|Return the primes below n.|def N(n):\n    A = []\n    for X in range(2, n):\n        if all(X % p for p in A):\n            A.append(X)\n    return A
gcd|computes the greatest common divisor|Return the greatest common divisor.|def N(a, b):\n    while b:\n        a, b = b, a % b\n    return a
digits_sum|sums the digits of a number|Sum the digits.|def N(X):\n    A = 0\n    while X:\n        A += X % 10\n        X //= 10\n    return A
collatz|counts the Collatz steps of a number|Count the steps to 1.|def N(n):\n    A = 0\n    while n != 1:\n        n = n // 2 if n % 2 == 0 else 3 * n + 1\n        A += 1\n    return A
read_lines|reads all lines of a file|Read the lines of a file.|def N(path):\n    with open(path) as handle:\n        return [line.strip() for line in handle]
write_lines|writes lines to a file|Write lines to a file.|def N(path, L):\n    with open(path, "w") as handle:\n        for X in L:\n            handle.write(X + LINE)
load_json|loads a JSON file|Load a JSON file.|import json\n\n\ndef N(path):\n    with open(path) as handle:\n        return json.load(handle)
save_json|saves data as a JSON file|Save data as JSON.|import json\n\n\ndef N(path, data):\n    with open(path, "w") as handle:\n        json.dump(data, handle, indent=2)
invert|swaps the keys and values of a dictionary|Swap keys and values.|def N(D):\n    return {value: key for key, value in D.items()}
get_value|returns the value of a key or a default|Return the value or a default.|def N(D, key, default=None):\n    return D[key] if key in D else default
merge_dicts|merges two dictionaries|Merge two dictionaries.|def N(a, b):\n    A = dict(a)\n    A.update(b)\n    return A
group_by_length|groups words by their length|Group words by length.|def N(L):\n    D = {}\n    for X in L:\n        D.setdefault(len(X), []).append(X)\n    return D
greet|returns a greeting for a name|Greet somebody.|def N(name):\n    return "Hello, " + name + "!"
bubble_sort|sorts a list with bubble sort|Sort a list in place.|def N(L):\n    n = len(L)\n    for i in range(n):\n        for j in range(n - i - 1):\n            if L[j] > L[j + 1]:\n                L[j], L[j + 1] = L[j + 1], L[j]\n    return L
insertion_sort|sorts a list with insertion sort|Sort a list in place.|def N(L):\n    for i in range(1, len(L)):\n        X = L[i]\n        j = i - 1\n        while j >= 0 and L[j] > X:\n            L[j + 1] = L[j]\n            j -= 1\n        L[j + 1] = X\n    return L
quick_sort|sorts a list with quicksort|Return a sorted list.|def N(L):\n    if len(L) <= 1:\n        return L\n    pivot = L[0]\n    low = [X for X in L[1:] if X < pivot]\n    high = [X for X in L[1:] if X >= pivot]\n    return N(low) + [pivot] + N(high)
binary_search|finds an element in a sorted list|Return the index of target or -1.|def N(L, target):\n    low, high = 0, len(L) - 1\n    while low <= high:\n        mid = (low + high) // 2\n        if L[mid] == target:\n            return mid\n        if L[mid] < target:\n            low = mid + 1\n        else:\n            high = mid - 1\n    return -1
countdown|counts down from 7|Print a countdown.|def N(start=7):\n    while start > 0:\n        print(start)\n        start -= 1
fizzbuzz|prints FizzBuzz up to n|Print FizzBuzz.|def N(n):\n    for i in range(1, n + 1):\n        if i % 15 == 0:\n            print("FizzBuzz")\n        elif i % 3 == 0:\n            print("Fizz")\n        elif i % 5 == 0:\n            print("Buzz")\n        else:\n            print(i)
celsius_to_fahrenheit|converts Celsius to Fahrenheit|Convert Celsius to Fahrenheit.|def N(celsius):\n    return celsius * 9 / 5 + 32
area|computes the area of a rectangle|Return the area.|def N(width, height):\n    return width * height
circle_area|computes the area of a circle|Return the area.|def N(radius):\n    return 3.14159 * radius ** 2
distance|computes the distance between two points|Return the distance.|def N(x1, y1, x2, y2):\n    return ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
is_leap_year|checks if a year is a leap year|Return True for a leap year.|def N(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
transpose|transposes a matrix|Swap rows and columns.|def N(matrix):\n    return [list(row) for row in zip(*matrix)]
retry|calls a function up to 7 times until it works|Retry a call.|def N(call, attempts=7):\n    for _ in range(attempts):\n        try:\n            return call()\n        except Exception:\n            continue\n    return None
""".strip().split("\n")
NAMES = {
    "X": ("x", "n", "value", "item", "number"), "L": ("values", "items", "numbers", "xs"),
    "S": ("text", "s", "word", "line"), "A": ("result", "total", "out"), "D": ("mapping", "table", "d", "counts"),
}  # fmt: skip


def snippet(g: Gen, plain: bool = False) -> Snippet:
    """A generated function or class. `plain` keeps the usual names, so that one answer is right."""
    if not plain and g.chance(0.14):
        return _class(g)
    base, task, summary, source = g.choice(TEMPLATES).split("|", 3)
    name = base.removesuffix("_rec")
    if not plain and g.chance(0.5):
        name = g.identifier() if g.chance(0.4) else f"{name}_{g.noun()}"
    number = str(g.randint(2, 99))
    chosen = {k: v[0] if plain else g.choice(v) for k, v in NAMES.items()}
    source = source.replace("\\n", "\n").replace("LINE", '"\\n"')
    for letter, word in {**chosen, "N": name, "7": number}.items():
        source = re.sub(rf"\b{letter}\b", word, source)
    task, summary = (re.sub(r"\b7\b", number, t) for t in (task, summary))
    return Snippet(Function(name, source + "\n", summary), task)


def _class(g: Gen) -> Snippet:
    cls = g.choice(["Counter", "Stack", "Account", "Point", "Timer", g.noun().capitalize()])
    cls = cls if cls.isidentifier() else "Counter"
    attr = g.choice(["value", "count", "total", "size", g.identifier()])
    start, step = g.randint(0, 50), g.randint(1, 9)
    source = (
        f"class {cls}:\n    def __init__(self, {attr}={start}):\n        self.{attr} = {attr}\n\n"
        f"    def increase(self, amount={step}):\n        self.{attr} += amount\n        return self.{attr}\n\n"
        f"    def reset(self):\n        self.{attr} = {start}\n"
    )
    return Snippet(
        Function(cls, source, f"Keeps a {attr}."), f"keeps a {attr} that can be increased and reset"
    )
