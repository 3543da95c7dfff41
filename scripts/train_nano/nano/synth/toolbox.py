"""Tools: what they are called, what they take, how people ask for them, what they give back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from . import moods, wordings_tools
from .gen import COLORS, Gen, join_and, plural

ArgMaker = Callable[[Gen], Any]


@frozen
class Arg:
    """One parameter: its JSON type, and how to draw a value."""

    name: str
    kind: str
    description: str
    make: ArgMaker
    schema: tuple[tuple[str, Any], ...] = ()


@frozen
class Spec:
    """One tool with seen and unseen requests and a reply that quotes its result."""

    name: str
    description: str
    args: tuple[Arg, ...]
    asks: tuple[str, ...]
    unseen: tuple[str, ...]
    result: Callable[[Gen, dict[str, Any]], dict[str, Any]]
    reply: str


def text(name: str, description: str, make: ArgMaker) -> Arg:
    return Arg(name, "string", description, make)


def whole(name: str, description: str, low: int, high: int) -> Arg:
    return Arg(name, "integer", description, lambda g: g.randint(low, high))


def one_of(name: str, description: str, *choices: str) -> Arg:
    return Arg(name, "string", description, lambda g: g.choice(choices), (("enum", list(choices)),))


def _currency(g: Gen) -> str:
    return g.choice(["USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "INR", "BRL"])


def _title(g: Gen) -> str:
    return g.phrase(2, 3).capitalize()


def _sum(g: Gen) -> str:
    return f"{g.randint(2, 999)} {g.choice('+-*/')} {g.randint(2, 999)}"


def _command(g: Gen) -> str:
    return g.choice(
        ["ls -la {}", "cat {}", "wc -l {}", "rm {}", "python {}", "git add {}", "head -n 5 {}"]
    ).format(g.path())


def _sql(g: Gen) -> str:
    return f"SELECT {g.choice(['*', 'name', 'id', 'COUNT(*)'])} FROM {plural(g.noun())} WHERE {g.choice(['id', 'age', 'price'])} {g.choice('=><')} {g.randint(1, 500)}"


def _symbol(g: Gen) -> str:
    return "".join(g.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(g.randint(2, 4)))


SPECS: tuple[Spec, ...] = (
    Spec("get_weather", "Get the current weather for a city", (text("city", "The city name", Gen.city),),
         ("What's the weather in {city}?", "How is the weather in {city} today?", "Is it cold in {city} right now?", "weather {city}", "Tell me the weather for {city}.", "Do I need an umbrella in {city}?", "What is the weather like in {city}?"),
         ("I am flying to {city}. Will I need a coat?", "Is it raining in {city} at the moment?"),
         lambda g, a: {"city": a["city"], "temperature": g.randint(-10, 38), "condition": g.choice(["sunny", "cloudy", "rain", "snow", "windy", "fog"])},
         "It is {temperature} degrees in {city} with {condition}."),
    Spec("get_current_weather", "Get the current weather in a given location",
         (text("location", "The city and state, or the city", Gen.city), one_of("unit", "Temperature unit", "celsius", "fahrenheit")),
         ("What's the weather in {location} in {unit}?", "Give me the weather for {location}, use {unit}.", "Current temperature in {location} ({unit})?"),
         ("How warm is it in {location}? I prefer {unit}.",),
         lambda g, a: {"location": a["location"], "temperature": g.randint(-5, 95), "unit": a["unit"]},
         "The temperature in {location} is {temperature} degrees {unit}."),
    Spec("get_time", "Get the current time in a city", (text("city", "The city name", Gen.city),),
         ("What time is it in {city}?", "Current time in {city}?", "Tell me the time in {city}, please."),
         ("What does the clock say in {city}?",),
         lambda g, a: {"city": a["city"], "time": g.clock()}, "It is {time} in {city}."),
    Spec("search_web", "Search the web for a query", (text("query", "The search query", lambda g: g.phrase(1, 4)),),
         ("Search the web for {query}.", "Look up {query} online.", "Find information about {query}.", "google {query}"),
         ("What does the internet say about {query}?", "Please do a web search on {query}."),
         lambda g, a: {"title": g.phrase(3, 3).title(), "snippet": g.sentence()}, 'I found "{title}": {snippet}'),
    Spec("send_email", "Send an email to a recipient", (text("to", "Recipient address", Gen.email), text("subject", "Subject line", _title), text("body", "Message text", Gen.sentence)),
         ('Send an email to {to} with the subject "{subject}" and the text "{body}".', "Email {to}. Subject: {subject}. Body: {body}", "Write to {to}, subject '{subject}', saying: {body}"),
         ('Mail this to {to} under the title "{subject}": {body}',),
         lambda g, a: {"status": "sent", "id": g.code()}, "The email to {to} was sent (id {id})."),
    Spec("create_event", "Create a calendar event", (text("title", "Event title", _title), text("date", "Date as YYYY-MM-DD", Gen.date), text("time", "Time as HH:MM", Gen.clock)),
         ('Create an event called "{title}" on {date} at {time}.', "Schedule {title} for {date}, {time}.", "Put '{title}' in my calendar on {date} at {time}."),
         ('My calendar needs an entry "{title}" for {date}, starting {time}.',),
         lambda g, a: {"status": "created", "event_id": g.code()}, 'I created "{title}" on {date} at {time} (event {event_id}).'),
    Spec("set_reminder", "Set a reminder", (text("text", "What to remember", Gen.phrase), text("time", "Time as HH:MM", Gen.clock)),
         ("Remind me to {text} at {time}.", "Set a reminder for {time}: {text}", "At {time}, remind me about {text}."),
         ("Don't let me forget {text}; ping me at {time}.",),
         lambda g, a: {"status": "ok", "reminder_id": g.randint(1, 999)}, "Reminder {reminder_id} is set for {time}."),
    Spec("read_file", "Read a text file", (text("path", "Path of the file", Gen.path),),
         ("Read the file {path}.", "Show me what is in {path}.", "Open {path} and tell me what it says.", "cat {path}"),
         ("What are the contents of {path}?", "I want to see {path}."),
         lambda g, a: {"path": a["path"], "content": g.sentence()}, "The file {path} contains: {content}"),
    Spec("write_file", "Write text to a file", (text("path", "Path of the file", Gen.path), text("content", "The text to write", Gen.sentence)),
         ('Write "{content}" to {path}.', "Create the file {path} with this content: {content}", "Save the text '{content}' in {path}."),
         ('The file {path} should hold "{content}".',),
         lambda g, a: {"status": "written", "bytes": len(a["content"])}, "I wrote {bytes} bytes to {path}."),
    Spec("list_files", "List the files in a directory", (text("directory", "Directory path", lambda g: f"{g.identifier()}/{g.identifier()}"),),
         ("List the files in {directory}.", "What files are in {directory}?", "ls {directory}"),
         ("Which files does the folder {directory} hold?",),
         lambda g, a: {"files": [g.path().split("/")[1] for _ in range(g.randint(2, 4))]}, "The files are: {files}."),
    Spec("run_command", "Run a shell command", (text("command", "The command line", _command),),
         ("Run `{command}`.", "Please execute {command}", "Run this command: {command}"),
         ("In the shell, do `{command}`.",),
         lambda g, a: {"exit_code": g.choice([0, 0, 1]), "output": g.phrase(3, 3)}, "The command finished with exit code {exit_code} and printed: {output}"),
    Spec("convert_currency", "Convert an amount between currencies", (whole("amount", "Amount of money", 1, 5000), text("from_currency", "Source currency code", _currency), text("to_currency", "Target currency code", _currency)),
         ("Convert {amount} {from_currency} to {to_currency}.", "How much is {amount} {from_currency} in {to_currency}?", "{amount} {from_currency} in {to_currency}?"),
         ("I hold {amount} {from_currency}. What would that be in {to_currency}?",),
         lambda g, a: {"amount": round(a["amount"] * g.uniform(0.5, 2), 2), "currency": a["to_currency"]}, "That is {amount} {currency}."),
    Spec("calculate", "Evaluate an arithmetic expression", (text("expression", "The expression", _sum),),
         ("What is {expression}? Use the calculator.", "Calculate {expression}", "Use the tool to compute {expression}."),
         ("Let the calculator evaluate {expression}.",),
         lambda g, a: {"result": g.randint(1, 99999)}, "The result is {result}."),
    Spec("get_stock_price", "Get the latest price of a stock", (text("symbol", "Ticker symbol", _symbol),),
         ("What is the stock price of {symbol}?", "How much does {symbol} trade for?", "Price of {symbol}?"),
         ("Check the share price for {symbol}.",),
         lambda g, a: {"symbol": a["symbol"], "price": round(g.uniform(5, 900), 2)}, "{symbol} trades at {price}."),
    Spec("translate_text", "Translate text into another language", (text("text", "Text to translate", Gen.sentence), one_of("language", "Target language", "French", "German", "Spanish", "Italian", "Japanese", "Polish")),
         ('Translate "{text}" to {language}.', "How do you say '{text}' in {language}?", "Put this into {language}: {text}"),
         ('I need "{text}" in {language}.',),
         lambda g, a: {"translation": " ".join(g.fake() for _ in range(5))}, "In {language}: {translation}"),
    Spec("get_user", "Look up a user by id", (whole("user_id", "Numeric id", 1, 99999),),
         ("Who is user {user_id}?", "Get the user with id {user_id}.", "Look up user {user_id}."),
         ("Tell me who has the user id {user_id}.",),
         lambda g, a: {"user_id": a["user_id"], "name": g.name(), "email": g.email()}, "User {user_id} is {name} ({email})."),
    Spec("get_order_status", "Get the status of an order", (text("order_id", "Order number", Gen.code),),
         ("Where is my order {order_id}?", "What is the status of order {order_id}?", "Track order {order_id}."),
         ("Has {order_id}, my order, been shipped yet?",),
         lambda g, a: {"order_id": a["order_id"], "status": g.choice(["shipped", "delivered", "pending", "cancelled"]), "date": g.date()}, "Order {order_id} is {status} as of {date}."),
    Spec("book_flight", "Book a flight", (text("origin", "Departure city", Gen.city), text("destination", "Arrival city", Gen.city), text("date", "Date as YYYY-MM-DD", Gen.date)),
         ("Book a flight from {origin} to {destination} on {date}.", "I need a flight to {destination} from {origin}, {date}.", "Fly me from {origin} to {destination} on {date}."),
         ("On {date} I have to get from {origin} to {destination} by plane.",),
         lambda g, a: {"flight": g.code().upper(), "price": g.randint(50, 900)}, "Flight {flight} from {origin} to {destination} costs {price}."),
    Spec("play_music", "Play a song", (text("song", "Song title", lambda g: g.phrase(2, 2).title()), text("artist", "Artist name", Gen.name)),
         ("Play {song} by {artist}.", 'I want to hear "{song}" from {artist}.', "Put on {song} by {artist}"),
         ('Start the song "{song}" of {artist}.',),
         lambda g, a: {"status": "playing"}, "Now {status}: {song} by {artist}."),
    Spec("set_light", "Control a light", (text("room", "Room name", lambda g: g.choice(["kitchen", "bedroom", "office", "hall", g.noun()])), one_of("state", "on or off", "on", "off"), ),
         ("Turn {state} the light in the {room}.", "Switch the {room} light {state}.", "{room} light {state} please"),
         ("The lamp in the {room} should be {state}.",),
         lambda g, a: {"room": a["room"], "state": a["state"]}, "The light in the {room} is {state}."),
    Spec("query_database", "Run a SQL query", (text("sql", "The SQL text", _sql),),
         ("Run this query: {sql}", "Execute `{sql}` on the database.", "Query the database with {sql}"),
         ("Ask the database: {sql}",),
         lambda g, a: {"rows": g.randint(0, 900)}, "The query returned {rows} rows."),
    Spec("add_numbers", "Add a list of numbers", (Arg("numbers", "array", "Numbers to add", lambda g: [g.randint(1, 200) for _ in range(g.randint(2, 5))], (("items", {"type": "number"}),)),),
         ("Add the numbers {numbers}.", "What is the sum of {numbers}?", "Sum up {numbers} with the tool."),
         ("Let the tool total these: {numbers}",),
         lambda g, a: {"sum": sum(a["numbers"])}, "The sum is {sum}."),
    Spec("search_products", "Search the product catalog", (text("query", "Search words", lambda g: f"{g.choice(COLORS)} {g.noun()}"), whole("max_price", "Maximum price", 5, 500)),
         ("Find a {query} under {max_price} dollars.", "Show me {query} for at most {max_price}.", "I am looking for a {query}, max price {max_price}."),
         ("My budget is {max_price} dollars and I want a {query}.",),
         lambda g, a: {"product": f"{g.fake().capitalize()} {a['query']}", "price": g.randint(1, a["max_price"])}, "I found the {product} for {price} dollars."),
    Spec("edit_file", "Replace text in a file", (text("path", "Path of the file", Gen.path), text("old", "Text to replace", Gen.identifier), text("new", "Replacement text", Gen.identifier)),
         ("In {path}, replace {old} with {new}.", "Change {old} to {new} in {path}.", "Rename `{old}` to `{new}` in the file {path}."),
         ("The file {path} still says {old}; it must say {new}.",),
         lambda g, a: {"replaced": g.randint(1, 9)}, "I replaced {replaced} occurrences in {path}."),
)  # fmt: skip


def _words(g: Gen) -> list[str]:
    make = g.noun if g.unseen else g.any_word
    return [make() for _ in range(g.randint(1, 4))]


def _object(g: Gen) -> tuple[dict[str, Any], ArgMaker]:
    """Schema and value of a nested object with two or three fields."""
    fields: dict[str, tuple[dict[str, Any], ArgMaker]] = {}
    kinds: list[tuple[dict[str, Any], ArgMaker]] = [
        ({"type": "string"}, Gen.noun), ({"type": "integer"}, lambda g: g.randint(1, 500)),
        ({"type": "boolean"}, lambda g: g.chance(0.5)), ({"type": "string"}, Gen.city),
        ({"type": "array", "items": {"type": "string"}}, _words),
    ]  # fmt: skip
    for _ in range(g.randint(2, 3)):
        fields[g.noun()] = g.choice(kinds)
    schema = {"properties": {k: s for k, (s, _) in fields.items()}}
    return schema, lambda g: {k: make(g) for k, (_, make) in fields.items()}


VERBS = [
    "get",
    "set",
    "find",
    "update",
    "delete",
    "create",
    "check",
    "fetch",
    "send",
    "open",
    "start",
    "stop",
    "add",
    "move",
    "list",
    "assign",
]
FRAMES = (
    "{Verb} [the|a|this|my] {noun} [with|using|for|where|given] {spoken}[.|, please.|]", "[Please|Now|Then|So|Next] {verb} [the |a |][{noun}][:|,| with] {spoken}", "[Use|Call|Run|Invoke|Try|Execute|Start|Apply|Trigger] {name} [with|using|for|on|given|and pass] {spoken}[.|]",
    "[Can|Could|Will|Would] you [please |][{verb}] [the|a|that|this] {noun}? [It has|Use|Take|With|The values are|Data:|It needs] {spoken}.", "{Verb} [a|the|this] {noun}. {Spoken}.", "I [need|want|would like|have] [{name}|to {verb} the {noun}|you to {verb} a {noun}|the {noun} tool][:| with| using|;] {spoken}[.|]",
    "[Call|Use|Run|The tool is|The function is|Tool:] {name}. {Spoken}.", "{Verb} {noun}, {spoken}", "{name}: {spoken}", "{name} {spoken}", "[My|The|A|Our] {noun} [must|should|has to|needs to] be [handled|processed|treated|dealt with][:|;] {verb} it with {spoken}.",
    "[Help me|Let us|Let's|I must|We have to|You should|Time to|Try to] {verb} the {noun}[:|;| using| with] {spoken}[.|]", "[With|Using|Given|From|Taking] {spoken}, {verb} the {noun}[.|, please.]", "[Do|Make] a {verb} [of|on|for] the {noun}[:| with|;] {spoken}.", "{Spoken}. [Now |Please |][{verb}] the {noun}[.| for me.|, please.]",
    "[Go and|Just|Simply|Kindly] {verb} {noun} [with|using] {spoken}.", "What happens if I {verb} the {noun} with {spoken}? [Do it|Try it|Run it].",
)  # fmt: skip
FRAMES_UNSEEN = (
    "It is time to {verb} the {noun}; take {spoken}.", "Would you {verb} a {noun} for me? {Spoken}.",
    "Go ahead and run {name} using {spoken}.",
)  # fmt: skip
LINKS_UNSEEN = ("{} {{{}}}", "{} = {{{}}}", "{}: {{{}}}", "the {} {{{}}}", "{} set to {{{}}}")


def spoken_arguments(g: Gen, args: Sequence[Arg]) -> str:
    """The arguments in words, with {placeholders} for the values."""
    links = LINKS_UNSEEN if g.unseen else wordings_tools.LINKS
    return join_and([
        g.choice(links).format(a.name.replace("_", " ") if g.chance(0.7) else a.name, a.name)
        for a in args
    ])  # fmt: skip


def made_up(g: Gen) -> Spec:
    """A tool nobody has seen, with typed and sometimes nested parameters."""
    verb = g.choice(VERBS)
    noun = (g.fake() if g.unseen else g.rare()) if g.chance(0.3) else g.noun()
    makers: list[tuple[str, ArgMaker, tuple[tuple[str, Any], ...]]] = [
        ("string", Gen.code, ()), ("string", Gen.fake, ()), ("string", Gen.city, ()), ("string", Gen.phrase, ()),
        ("string", Gen.date, ()), ("string", Gen.name, ()), ("string", Gen.sentence, ()), ("string", Gen.path, ()),
        ("integer", lambda g: g.randint(1, 9999), ()), ("integer", lambda g: g.randint(0, 20), ()),
        ("number", lambda g: round(g.uniform(0, 500), g.randint(1, 2)), ()),
        ("boolean", lambda g: g.chance(0.5), ()), ("array", _words, (("items", {"type": "string"}),)),
        ("array", lambda g: [g.randint(1, 99) for _ in range(g.randint(1, 4))], (("items", {"type": "integer"}),)),
    ]  # fmt: skip
    if not g.unseen:
        makers += [("string", Gen.rare, ()), ("string", lambda g: g.rare().capitalize(), ()), ("string", Gen.identifier, ())]  # fmt: skip
    args: list[Arg] = []
    for _ in range(g.randint(1, 3)):
        name = g.choice(
            [
                g.identifier(),
                g.choice(
                    [
                        "name",
                        "id",
                        "key",
                        "value",
                        "target",
                        "label",
                        "count",
                        "title",
                        "priority",
                        "city",
                    ]
                ),
            ]
        )
        if name in {a.name for a in args}:
            continue
        if g.chance(0.1):
            schema, make = _object(g)
            args.append(
                Arg(name, "object", f"The {name.replace('_', ' ')}", make, tuple(schema.items()))
            )
        else:
            kind, make, extra = g.choice(makers)
            args.append(Arg(name, kind, f"The {name.replace('_', ' ')}", make, extra))
    name = f"{verb}_{noun}"
    spoken = spoken_arguments(g, args)
    frame = g.say(FRAMES + wordings_tools.FRAMES, FRAMES_UNSEEN)
    ask = frame.format(
        verb=verb,
        Verb=verb.capitalize(),
        ing=moods.gerund(verb),
        noun=noun,
        name=name,
        spoken=spoken,
        Spoken=spoken[0].upper() + spoken[1:],
    )
    return Spec(name, f"{verb.capitalize()} a {noun}", tuple(args), (ask,), (ask,) if g.unseen else (),
                lambda g, a: {"status": g.choice(["ok", "done", "failed"]), "ref": g.code()}, "The status is {status} and the reference is {ref}.")  # fmt: skip


def definition(g: Gen, spec: Spec) -> dict[str, Any]:
    """The tool object as clients send it, with optional parts sometimes left out."""
    bare = g.chance(0.25)
    props: dict[str, Any] = {}
    for a in spec.args:
        prop: dict[str, Any] = {"type": a.kind}
        if not bare or g.chance(0.4):
            prop["description"] = a.description
        props[a.name] = {**prop, **dict(a.schema)}
    if g.chance(0.15):
        props[g.choice(["verbose", "limit", "note"])] = {
            "type": "string",
            "description": "Optional",
        }
    parameters = {"type": "object", "properties": props, "required": [a.name for a in spec.args]}
    return {
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": parameters},
    }
