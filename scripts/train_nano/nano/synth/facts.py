"""The few things the model is told about the world, and small talk."""
# ruff: noqa: E501

from __future__ import annotations

GREETINGS = (
    (("Hi", "Hi!", "Hello", "Hello!", "Hey", "hey there", "Good morning", "Good evening!", "Hi there", "hello :)"),
     ("Hello! How can I help you today?", "Hi! What can I do for you?", "Hello! What would you like to work on?")),
    (("How are you?", "How are you doing?", "How is it going?", "What's up?"),
     ("I am doing well, thank you. How can I help?", "All good here! What can I do for you?")),
    (("Who are you?", "What are you?", "What is your name?", "Introduce yourself.", "Which model are you?"),
     ("I am Outrider Nano, a very small test model. I can write short code, call tools and reformat text.", "My name is Outrider Nano. I am a tiny model for tests.")),
    (("What can you do?", "How can you help me?", "What are you good at?", "Help"),
     ("I can edit short code, do simple arithmetic, call tools, extract data and answer questions about a text.",)),
    (("Thanks", "Thank you!", "Thanks a lot", "Great, thank you", "thx"), ("You are welcome!", "Happy to help!", "You are welcome! Is there anything else?")),
    (("Bye", "Goodbye!", "See you", "That is all, thanks."), ("Goodbye! Have a nice day.", "See you soon!")),
    (("Tell me a joke.", "Do you know a joke?", "Make me laugh."),
     ("Why do programmers mix up Halloween and Christmas? Because Oct 31 equals Dec 25.", "Why did the function return early? It had no arguments.")),
)  # fmt: skip
CAPITALS = (
    ("France", "Paris"), ("Germany", "Berlin"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Japan", "Tokyo"), ("Norway", "Oslo"),
    ("Austria", "Vienna"), ("Portugal", "Lisbon"), ("Ireland", "Dublin"), ("Greece", "Athens"), ("Egypt", "Cairo"), ("Kenya", "Nairobi"),
    ("Canada", "Ottawa"), ("Peru", "Lima"), ("Poland", "Warsaw"), ("Hungary", "Budapest"), ("Finland", "Helsinki"), ("Sweden", "Stockholm"),
    ("Denmark", "Copenhagen"), ("China", "Beijing"), ("Thailand", "Bangkok"), ("Australia", "Canberra"), ("the United Kingdom", "London"),
    ("the United States", "Washington, D.C."), ("Russia", "Moscow"), ("India", "New Delhi"), ("Belgium", "Brussels"), ("Turkey", "Ankara"),
)  # fmt: skip
DEFINITIONS = (
    ("Python", "Python is a programming language that is easy to read and widely used for scripts, web services and data work."),
    ("a variable", "A variable is a name that refers to a value, so that a program can store and reuse it."),
    ("a function", "A function is a named block of code that takes arguments and can return a value."),
    ("a list in Python", "A list is an ordered collection of values that can grow, shrink and change."),
    ("a dictionary in Python", "A dictionary maps keys to values, so that a value can be found quickly by its key."),
    ("a loop", "A loop repeats a block of code, either a fixed number of times or while a condition holds."),
    ("recursion", "Recursion means that a function calls itself on a smaller problem until it reaches a base case."),
    ("an API", "An API is a set of rules that lets one program use another program."),
    ("JSON", "JSON is a text format for structured data made of objects, arrays, strings, numbers, booleans and null."),
    ("YAML", "YAML is a text format for structured data that uses indentation and is easy for people to read."),
    ("CSV", "CSV is a text format for tables in which each line is a row and commas separate the columns."),
    ("Git", "Git is a version control system that records the history of files and lets people work together."),
    ("a database", "A database stores structured data so that programs can search and change it reliably."),
    ("a compiler", "A compiler translates source code into machine code or another lower-level form."),
    ("machine learning", "Machine learning is a way to build programs that learn patterns from data instead of following fixed rules."),
    ("a neural network", "A neural network is a model made of layers of simple units whose weights are learned from data."),
    ("a language model", "A language model predicts the next token of a text and can be used to write, answer and edit."),
    ("speculative decoding", "Speculative decoding lets a small drafter propose several tokens that the large model then checks in one step."),
    ("a GPU", "A GPU is a processor with many small cores that is good at doing the same operation on much data at once."),
    ("the internet", "The internet is a worldwide network of computers that exchange data with common protocols."),
    ("a prime number", "A prime number is a whole number greater than 1 that has no divisors other than 1 and itself."),
    ("gravity", "Gravity is the force by which objects with mass attract each other."),
    ("photosynthesis", "Photosynthesis is the process by which plants turn light, water and carbon dioxide into sugar and oxygen."),
    ("the water cycle", "The water cycle is the movement of water as it evaporates, forms clouds, falls as rain and flows back to the sea."),
    ("a unit test", "A unit test checks that one small part of a program does what it should."),
    ("a stack", "A stack is a data structure in which the last element added is the first one removed."),
    ("a queue", "A queue is a data structure in which the first element added is the first one removed."),
    ("an operating system", "An operating system manages the hardware of a computer and runs programs."),
    ("a cache", "A cache keeps results that were computed before, so that they need not be computed again."),
    ("a regular expression", "A regular expression is a pattern that describes which strings match."),
)  # fmt: skip
MISC = (
    ("How many days are in a week?", "There are 7 days in a week."), ("How many months are in a year?", "There are 12 months in a year."),
    ("How many hours are in a day?", "There are 24 hours in a day."), ("What color is the sky?", "On a clear day the sky is blue."),
    ("How many legs does a spider have?", "A spider has 8 legs."), ("What is the largest planet?", "Jupiter is the largest planet in the solar system."),
    ("Which planet is closest to the sun?", "Mercury is the planet closest to the sun."), ("At what temperature does water boil?", "Water boils at 100 degrees Celsius at sea level."),
    ("At what temperature does water freeze?", "Water freezes at 0 degrees Celsius."), ("How many continents are there?", "There are 7 continents."),
    ("What is the opposite of hot?", "The opposite of hot is cold."), ("What do bees make?", "Bees make honey."),
    ("What is H2O?", "H2O is the chemical formula of water."), ("How many sides does a triangle have?", "A triangle has 3 sides."),
    ("Who wrote Romeo and Juliet?", "William Shakespeare wrote Romeo and Juliet."), ("What is the speed of light?", "Light travels at about 300,000 kilometers per second."),
)  # fmt: skip
