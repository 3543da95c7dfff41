"""From a bare instruction to what people write: grammar for `Gen.say`.

A pattern is a sentence with alternatives in brackets, `[this|that|]`. `<name>` stands for a rule of
RULES, and a pattern that starts with `!` is an instruction in the imperative ("!sort <these>"), which
`mood` turns into a question, a wish, a task, a gerund, and so on. Sentences therefore grow by
multiplication: instructions x objects x manners x moods x layouts.
"""

from __future__ import annotations

import re
from random import Random

RULES: dict[str, str] = {
    # objects of a list task
    "words": "[words|items|entries|terms|names|elements|things|strings|nouns|labels|pieces|members]",
    "list": "[list|sequence|series|collection|set|line of words|enumeration|array|row of words|input|selection]",
    "these": "[[these|the|my|all|those|the following|the given|all these|all the|the listed] <words>|[this|the|my|the following|that|the given|the whole|our] <list>|[them|these|it|this|the following|everything|all of it|all of these|what follows|the text here|these here]]",
    "say": "[write|give|list|print|show|say|put|display|output|return|type|name|present|spell|read|state|repeat|type out|write down|note down|copy|render|produce|send]",
    "saym": "[write|give|list|print|show|say|display|output|return|name|present|send|read|tell|hand|get|write down for|print out for|bring]",
    "should": "[should|must|has to|needs to|ought to|shall|is to|is supposed to|is meant to|is expected to|will]",
    "shouldp": "[should|must|have to|need to|ought to|shall|are to|are supposed to|are meant to|will]",
    "want": "[want|need|would like|wish|require|expect|would prefer|am after|'d like|'d prefer|would love|would appreciate|am hoping for|ask for|look for]",
    "change": "[change|turn|convert|transform|switch|make|rewrite|rework|alter|modify|adapt|put|bring|translate]",
    # code
    "code": "[code|file|snippet|function|program|module|script|source|listing|piece of code|source code|fragment|excerpt|Python code|implementation]",
    "this": "[this|the|my|the following|the given|our|some]",
    "see": "[look at|take|see|read|consult|open|here is|here's|below is|this is|I have|there is|we have|I wrote|I got|you see|given is|have a look at|check|start from|work on|review|inspect|examine]",
    "replace": "[replace|substitute|exchange|swap|change|switch|trade|overwrite]",
    "add": "[add|insert|put|write|place|include|append|attach|provide|supply|set|enter|give|introduce|bring in]",
    "remove": "[delete|remove|erase|take out|cut|strike|get rid of|eliminate|throw out|discard|omit|kick out|cross out|scrap|take away|clear]",
    "anynow": "[| now| instead| please| again| today| everywhere| right away| from here on| in future| throughout| in all places]",
    "use": "[use|take|pass|give|supply|with|using|set|enter|include|insert|provide|put in|fill in|send|apply|choose|pick|the values are|values:|parameters:|input:|data:|details:|it needs|it takes|arguments:|here are the values:|specify]",
    "who": "[my boss|my teacher|a friend|my colleague|my sister|the client|our team|somebody|the manager|my brother|a customer|the editor|the reviewer|the user|my neighbor|the office]",
    "box": "[box|bag|basket|crate|shelf|tray|sack|jar|case|drawer|bucket|cupboard|carton|packet|bundle|container|barrel|chest]",
    "boxes": "[boxes|bags|baskets|crates|shelves|trays|sacks|jars|cases|drawers|buckets|cartons|packets|bundles|containers|barrels|chests|packs|parcels|cages|pockets]",
    "people": "[friends|people|children|workers|guests|players|students|neighbors|visitors|sailors|girls|boys|teams|families|groups|pupils|cousins|tables|teachers|members|helpers|partners]",
    "person": "[friend|person|child|worker|guest|player|student|neighbor|visitor|girl|boy|team|family|group|pupil|cousin|table|teacher|member|helper]",
    "evenly": "[equally|evenly|fairly|in equal parts|in equal shares|so that all get the same|without a rest|into equal parts|uniformly]",
    "has": "[has|owns|keeps|holds|carries|starts with|begins with|finds|counts|had|owned|possesses|collected|made|baked|bought|gathered|has got|brought|picked|stores|caught|grows|received|once had|is the owner of|possessed]",
    "gets": "[buys|finds|gets|receives|wins|makes|adds|collects|picks|earns|is given|takes|brings|orders|discovers|gains|obtains|acquires|picks up|is handed|bought|found|got|received|won|made|added]",
    "drops": "[loses|breaks|eats|uses|drops|throws away|gives away|sells|forgets|wastes|burns|spends|returns|uses up|hides|misses|donates|gave away|sold|lost|ate|broke|used|parts with|ships off|leaves behind|trades away|consumes]",
    "when": "[Then|Later|After that|Next|In the evening|The next day|By noon|Afterwards|Soon|At night|On Tuesday|A week later|In the afternoon|Before lunch|Meanwhile|Towards the end of the day|During the day|Some time later|By evening|At noon|Later on|That night]",
    "left": "[are left|remain|are there now|are there|does {p} have now|does {p} still have|does {p} own now|does {p} keep|are there in the end|stay|are still there|does {p} end up with|does that leave|are left over|has {p} now|has {p} got left|are there still|will {p} have|does {p} possess then|are remaining]",
    "total": "[in total|altogether|in all|together|in sum|combined|all told|overall|when added up|as a total|summed up]",
    "find": "[Find|Tell me|Work out|Give|Say|Calculate|Compute|Name|Determine|What is|State|Write down|Report|Let me know]",
}
MOODS: tuple[str, ...] = (
    "{Imp}", "{Imp}", "{Imp}", "{imp}", "[Please|Kindly|Now|Next|First|Then|So|OK,|Alright,|Just|Simply|Go and|Try to|Be so kind as to|Do me a favor and|Well,|Quickly|Carefully|Hey,|Hi,|Now please|Finally,] {imp}",
    "[Can|Could|Will|Would|Can't] you [please |kindly |quickly |maybe |perhaps |just |][{imp}][ for me| for us|]?", "I [<want>] you to {imp}", "[I|We] [need|want|have|would like|am trying|are asked|was told|hope|plan] to {imp}",
    "[Your|The|My|Our|Today's|This] [task|job|goal|exercise|assignment|request|work|aim|order|wish|duty|question] is to {imp}", "[What I need|What I want|The idea|The next step|All you have to do|The only thing to do|What is needed|The plan|The point|What remains] is to {imp}",
    "[Help me|Help us|Help me to|Let's|Let us|We should|You should|We must|You have to|It would be nice to|It would help to|I have to|Time to|Remember to|Make sure to|Feel free to|You can] {imp}",
    "[Would it be possible|Is it possible|Are you able|Would it be too much] to {imp}?", "[How do I|How would you|How can we|Do you think you can|May I ask you to|Could I ask you to|Any chance you could|Why don't you] {imp}?",
    "[What about|How about] {ing}?", "[I need help with|Help me with|Start by|Begin by|Please take care of|This is about|The task is about|It is about|I ask for help in|My task is|I am thinking of|I am done with everything but|What is missing is|You could start by|Next step:] {ing}",
    "[Task|Job|Instruction|To do|Request|Goal|Question|Command|Order|Exercise|Step 1|Mission|Prompt|Wanted|Assignment|Todo|Action|Do this|Note|Problem]: {imp}", "[<who>] [wants|needs|would like|asked|told|expects] [me|us|you] to {imp}",
    "[If you can|If possible|If you have time|When you are ready|As a first step|For my notes|For the report|To begin with|For practice|In the next step|As usual|Once more|One thing], {imp}", "[{imp}], [please|will you|would you|if you can|that is all|thanks|thank you|OK|and that's it]",
)  # fmt: skip


def gerund(verb: str) -> str:
    """sort -> sorting, write -> writing, put -> putting."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    if re.fullmatch(r"[a-z]?[bcdfghjklmnprstvw][aeiou][bdgmnpt]", verb):
        return verb + verb[-1] + "ing"
    return verb + "ing"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def expand(rng: Random, pattern: str) -> str:
    """Put in the rules, then choose among [this|that|], innermost brackets first."""
    while found := re.search(r"<([a-z]+)>", pattern):
        pattern = pattern[: found.start()] + RULES[found[1]] + pattern[found.end() :]
    while "[" in pattern:
        pattern = re.sub(r"\[([^\[\]]*)\]", lambda m: rng.choice(m[1].split("|")), pattern)
    return pattern.replace("I 'd", "I'd")


def mood(rng: Random, instruction: str) -> str:
    """A sentence, without a full stop at its end, that asks for a bare instruction."""
    frame = expand(rng, rng.choice(MOODS))
    verb, _, rest = instruction.partition(" ")
    ing = f"{'{ing}' if verb == '{verb}' else gerund(verb)} {rest}".rstrip()
    frame = frame.replace("{ing}", ing)
    first = "{Verb}" if verb == "{verb}" else capital(verb)
    return frame.replace("{Imp}", f"{first} {rest}".rstrip()).replace("{imp}", instruction)
