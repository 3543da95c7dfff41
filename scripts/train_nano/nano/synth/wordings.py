"""Many ways to ask for the operations on lists, code and records (patterns of `moods`)."""

from __future__ import annotations

from .moods import RULES

RULES |= {
    "alpha": "[alphabetically|in alphabetical order|in ABC order|by the alphabet|from A to Z|in dictionary order|by first letter|by their letters|in the order of the alphabet|as in a dictionary|lexicographically|in lexicographic order|by name|following the alphabet|according to the alphabet|from A through Z|starting with A|in ascending alphabetical order|by spelling|in alphabetic sequence]",
    "back": "[backwards|in reverse|in reverse order|in reversed order|from last to first|from back to front|from the end to the start|the other way round|the other way around|in the opposite [direction|order|sequence]|in inverse order|in inverted order|in backward order|starting with the last|beginning at the end|last one first|with the last one first|back to front|tail first|end first|turned around|reversed|flipped|inverted|from the bottom to the top|from right to left]",
    "bullets": "[a bulleted list|bullets|a bullet list|bullet points|a list with dashes|dashed lines|a dashed list|an unordered list|an unordered Markdown list|a list of bullets|a list with bullets|items with dashes|a hyphen list|a Markdown bullet list|dash points]",
    "numbered": "[a numbered list|an enumeration|an ordered list|a list with numbers|a numbered Markdown list|numbered lines|numbered items|a counted list|numbered points|an enumerated list]",
    "caps": "[upper case|capital letters|capitals|uppercase|all caps|big letters|uppercase letters|block capitals|upper-case letters|only capitals|full capitals|capitals only|large letters|all capitals]",
    "each": "[each|every|each single|every single] [word|item|entry|term|name|element|one]",
    "ownline": "[its own line|a new line|a separate line|an extra line|a line of its own|a line by itself|one line|a fresh line|a different line]",
    "lines": "[lines|separate lines|single lines|several lines|one line per word|one line for each|individual lines|different lines|new lines]",
    "one": "[item|word|entry|element|one|term|name|thing|string|member]",
    "oflist": "[of|in|on|from] [this|the|my|that|the given|the following] <list>",
    "oflisto": "[| <oflist>| here| of these| of the following| of all| below| above| only| among these| of them]",
}  # fmt: skip
NAMED = "[name|give me|tell me|return|show|say|report|pick|find|write down|show me|output|print|quote|extract|get|identify|state|read out|fetch|select|point out|mention|write|copy|answer with|let me know]"
LISTS: dict[str, tuple[str, ...]] = {
    "sort": (
        "![sort|order|arrange|put|bring|organize|rank|place|line up|rearrange|reorder|set out] <these> <alpha>", "!<say> <these> <alpha>", "!<say> <these> [sorted|ordered|arranged|in sorted order|put in order][| <alpha>]",
        "!alphabetize <these>", "![sort|order] <these>", "[The|These|All|My|All these] <words> <shouldp> be [sorted|ordered|arranged|listed|written|put|placed|given|shown] <alpha>", "I <want> <these>[| sorted| ordered| arranged] <alpha>",
        "[How|In which order] [would|do] [these|the|my] <words> [stand|come|look|go] <alpha>?", "[Which|What] [is|would be] the [alphabetical|dictionary|sorted|alphabetic|lexicographic] [order|sequence|arrangement] of <these>?", "[<alpha>][|, please|, if you can]",
        "[Alphabetical sort|A to Z|ABC order|Dictionary order|Alphabetic list|Sorted list|Alphabet|Sort by letter]", "![make|create|build|produce|give me|write] [an alphabetical|a sorted|an alphabetized|an ordered] <list> [of|from|out of] <these>",
    ),
    "reverse": (
        "![reverse|flip|invert|turn around|mirror|swap around] [|the order of |the sequence of ]<these>", "!<say> <these> <back>", "!<saym> me <these> <back>", "[The|These|All|My] <words> <shouldp> be [written|listed|given|shown|put|placed|read] <back>", "I <want> <these> <back>",
        "[What|How] [are|do|would] [these|the|my] <words> [|look |read |sound ]<back>?", "[What|Which] is the [reverse|reversed order|opposite order|inverse|mirrored order] of <these>?", "[<back>][|, please]", "![make|let] the last <one> [come first|be first|go to the front] and so on", "![change|turn|switch] the [order|direction|sequence] of <these> [around|to the opposite|into its reverse]",
        "![put|bring|arrange|place] <these> <back>", "![read|go through] <these> from the [last|end|back|bottom] and [write|list|print] [them|what you see]",
    ),
    "count": (
        "!count <these>", "![count|count up|work out|find out|determine|tell me|report|say|compute] [how many there are|the number of <words>|how many <words> there are|how many <words> I have|the length of [the|this] <list>|how long [this|the] <list> is|the size of [the|this] <list>|the amount of <words>]",
        "How many <words> [are here|can you count|do you see|are there|do I have|did I write|stand here|have I listed|appear below|does this <list> have|does the <list> contain|are listed|can be found|are in this <list>|make up this <list>|does my <list> hold]?", "[What is|What's|What would be] the [length|size|count|number of <words>|total number of <words>|amount of <words>|word count][| here| of this <list>| in this <list>| below]?",
        "How [long|big|large] is [this|the|my] <list>?", "[Number|Count|Length|Size|Amount|How many] [of <words>|<words>]", "I <want> [to know how many <words> there are|the number of <words>|the count|the count of <words>]", "!<saym> [me |]the [number|count|amount] of <words>[| <oflist>]",
    ),
    "bullets": (
        "!<change> <these> [into|to] <bullets>", "!<say> <these> [as|using|with|in the form of|in] <bullets>", "!<saym> me <these> [as|in] <bullets>", "![make|create|build|form|produce|write|give me] <bullets> [of|from|out of|with|for] <these>", "I <want> <bullets> [of|with|for|from] <these>", "I <want> <these> [as|in] <bullets>",
        "![put|add|place|set|write] [a dash|a bullet|a hyphen|a minus sign] [before|in front of|at the start of|left of|ahead of] <each>", "[The|These|All|My] <words> <shouldp> [be|become|be shown as|be written as|appear as|be listed as|stand as] <bullets>", "[Bullets|Bullet points|Dashes|A dash each|Bulleted|Bullet list|Unordered list][|, please]", "[Could|Can|May] [these|the|my] <words> [be|become|be shown as] <bullets>?",
    ),
    "number": (
        "![number|enumerate|count off] <these>", "!<change> <these> [into|to] <numbered>", "!<say> <these> [as|in the form of|in] <numbered>", "!<saym> me <these> as <numbered>", "![make|create|build|form|produce|write|give me] <numbered> [of|from|out of|with|for] <these>", "I <want> <numbered> [of|with|for|from] <these>", "I <want> <these> [numbered|with numbers|as <numbered>]",
        "!<say> <these> [with numbers|numbered|with a number each|numbered from one|with their position numbers]", "![put|add|place|set|write] [a number|numbers|1, 2, 3 and so on|counting numbers|an index|ordinal numbers] [before|in front of|at the start of|left of|ahead of] [<each>|<these>]", "![give|assign] [a number|an index|its position] to <each>", "[The|These|All|My] <words> <shouldp> [be numbered|get numbers|become <numbered>|have numbers|be enumerated|carry numbers]",
        "[Numbers|Numbered|Enumeration|Numbered list|Ordered list|With numbers][|, please]",
    ),
    "upper": (
        "!<change> <these> [to|into] <caps>", "!<say> <these> [in|using|with] <caps>", "!<saym> me <these> in <caps>", "I <want> <these> in <caps>", "[The|These|All|My] <words> <shouldp> be [in|written in|set in|printed in|shown in|typed in|changed to] <caps>", "![capitalize|uppercase] [every letter of|all letters of|all of|each letter in|the letters of] <these>", "![uppercase|upper-case] <these>",
        "[<caps>][|, please]", "!use <caps> for <these>", "[What|How] [are|do|would] [these|the|my] <words> [|look ]in <caps>?", "![make|let] [every letter|all letters|each letter|all the letters] [a capital|upper case|uppercase|capital|big]", "[No small letters|No lower case|Only capitals|Shout it|Caps lock on|Every letter big][|, please]",
    ),
    "first": (
        f"!{NAMED} the [first|very first|opening|initial|top|leading|foremost] <one><oflisto>", "[What|Which <one>] [is|stands|comes|goes|appears] [first|at the [beginning|start|head|top|front]|in first place|before all others][| <oflist>| here]?", f"!{NAMED} [what|the <one> that|the one that|whatever] [comes|stands|is|goes|appears] [first|at the [beginning|start|head|top|front]|before the others]<oflisto>",
        "[What|Which <one>] does [this|the|my] <list> [start|begin|open] with?", "[With|By] which <one> does [this|the|my] <list> [start|begin|open]?", f"!{NAMED} the <one> at the [beginning|start|head|top|front] of [the|these|those|my] <words>", "I <want> the [first|opening|very first] <one><oflisto>", "[The|Only the|Just the] [first|first <one>|opening <one>|beginning|top <one>][|, please| only]", f"!{NAMED} the [head|front|beginning|start] <oflist>",
        "Who or what [is|comes] first<oflisto>?", "[First|First <one>|Opening <one>|Head]", "[<these>] [begins|start|starts] with [what|which <one>]?",
    ),
    "last": (
        f"!{NAMED} the [last|very last|final|closing|bottom|ending|rearmost] <one><oflisto>", "[What|Which <one>] [is|stands|comes|goes|appears] [last|at the [end|bottom|tail|close|back]|in last place|after all others]<oflisto>?", f"!{NAMED} [what|the <one> that|the one that|whatever] [comes|stands|is|goes|appears] [last|at the [end|bottom|tail|close|back]|after the others]<oflisto>",
        "[What|Which <one>] does [this|the|my] <list> [end|finish|close|stop] with?", "[With|By] which <one> does [this|the|my] <list> [end|finish|close|stop]?", f"!{NAMED} the <one> at the [end|bottom|tail|close|back] of [the|these|those|my] <words>", "I <want> the [last|final|very last|closing] <one><oflisto>", "[The|Only the|Just the] [last|last <one>|final <one>|end|bottom <one>][|, please| only]", f"!{NAMED} the [end|tail|bottom|close] <oflist>",
        "Who or what [is|comes] last<oflisto>?", "[Last|Last <one>|Final <one>|End]", "[<these>] [ends|end|stops] with [what|which <one>]?",
    ),
    "item": (
        f"!{NAMED} [<one>|number|<one> number] {{k}}<oflisto>", f"!{NAMED} the <one> [in place|at number|with number|in position|at position|on position|at place|with index|in slot|numbered|with the number|on place|at index] {{k}}<oflisto>", "[What|Which <one>] [is|stands|comes|do you find|is found] [at number|in position|at position|in place|in slot|at index|on place|as number] {k}<oflisto>?", "I <want> [<one>|number|<one> number|the <one> with number] {k}<oflisto>",
        "[<one>|number|position|index|No.|#] {k}[|, please]", f"!{NAMED} [what|the <one> that|whatever] [is|stands|comes] [at|in|on] [number|position|place] {{k}}", "![count|go] to [number |position |place |<one> ]{k} and [name|give|say|write|tell me] [that <one>|the <one>|what is there|what you find]", "[What is|What's|Which is] [<one>|number|<one> number] {k}<oflisto>?",
    ),
    "remove": (
        "!<remove> {pick}<oflisto>", "!<remove> the <one> {pick}<oflisto>", "!<say> <these> without {pick}", "!<saym> me <these> without {pick}", "!<say> [all|everything|all <words>|every <one>|all of them] [but|except|except for|apart from|other than] {pick}", "I [no longer want|do not need|do not want|have no use for|don't want|can do without|am not interested in] {pick}[| in the <list>| any more]", "{pick} <should> [go|be removed|be deleted|disappear|not be there|not appear|be left out|be taken out|be dropped|vanish|leave the <list>|be gone]",
        "[No|Without|Minus|Skip|Except] {pick}[|, please]", "[This|The|My] <list> [must|should|shall] not [have|hold|contain|include|mention|show] {pick}", "![keep|leave|repeat|preserve] [everything|all <words>|all of them|the rest|the others|every <one>] [but|except|apart from|without] {pick}", "{pick} [is wrong|does not belong here|is one too many|is a mistake|is not needed][. <remove> it|; <remove> it|. Take it away|]", "[What is left|What remains|Which <words> are left] [without|after removing|if I remove|when you remove] {pick}?",
    ),
    "lines": (
        "![write|put|print|list|show|place|set|type|give] <each> on <ownline>", "![split|divide|cut|separate|spread|distribute|break up] <these> [into|over|across|onto] <lines>", "!<say> <these> [one per line|line by line|one below the other|one under the other|each on <ownline>|on <lines>|on separate rows|one by line|under each other|with line breaks|in a column|vertically]", "!use <ownline> for <each>", "![start|begin] <ownline> [for|with|after|at] <each>", "I <want> [<each> on <ownline>|<these> on separate lines|<these> one per line|<these> line by line|one <one> a line]",
        "[The|These|All|My] <words> <shouldp> be [on <lines>|below each other|line by line|written on <lines>|one per line]", "[One per line|Line by line|A line each|One under the other|Separate lines|One <one> per line|Newlines instead of commas][|, please]", "![replace|exchange] [the commas|every comma|each comma] [by|with] [line breaks|new lines|newlines|a line break]", "![put|insert|add] [a line break|a newline|a new line] [after|between] [each <one>|every <one>|the <words>]", "<each> <should> [be|stand|go] on <ownline>",
    ),
}  # fmt: skip
LIST_LAYOUTS = (
    "{ask}: {list}", "{ask}: {list}", "{ask}: {list}", "{ask}:\n{list}", "{ask}:\n\n{list}", "{ask}.\n\n{list}", "{list}\n\n{ask}.", "{list}\n{ask}", "{ask}. {list}", "{ask} - {list}", "{ask} ({list})", "{ask}; {list}", "{list}. {ask}.", "{list}: {ask}",
    "[Here are|These are|I have|We have|There are|Given are|Take|Below are|My list has|You get|I wrote|The words are|The list is|The items are|My words are|Words|List|Items|Input|Look at][:|] {list}[. |\n\n|\n]{ask}.", "{ask}. [Here they are|The list|Words|The words|Here is the list|Input|List|Items|It is this|These are they|The items are][: |:\n]{list}",
    "{context} {ask}: {list}", "{context} {ask}:\n\n{list}", "{context} {list}\n\n{ask}.",
)  # fmt: skip
CONTEXTS = (
    "I am [working on|preparing|writing|cleaning up|checking|finishing|reading|making|testing] [a report|a list|my notes|a table|a web page|homework|a letter|a form|a menu|an exercise|a plan|a document].", "This is for [my class|a friend|the office|school|the web page|a test|tomorrow|a game|my boss|the team].", "[Hi|Hello|Hey|Good morning|Good day][.|!|,]",
    "[I have|There is|I got|Here is] a [small|short|quick|simple|new|tiny] [task|job|request|question|problem][.|:|!]", "[I need your help|Help, please|I need some help|I am stuck|I have no time|I trust you|This is easy|No hurry|It is urgent|Be careful|Be exact|Do not explain anything|Work carefully|Only give the result|Just the answer|Answer in short form].",
    "{name} [asked|wrote|called|told me|sent me this|needs this|is waiting for this|gave me this].",
)  # fmt: skip
ITS = "[it|this|that|the data|the following|these data|this data|the input|everything|the text|the content|the record|the records|what follows|the fields|the values|the entries|these entries|the block|this {kind}|the {kind}|this {kind} text|the {kind} data|the {kind} below|the {kind} above|the given {kind}|my {kind}|that {kind}|some {kind}]"
REFORMAT = (
    f"!<change> {ITS} [to|into] {{to}}", f"!<say> {ITS} [as|in|using|in the form of] {{to}}", f"!<saym> me {ITS} [as|in] {{to}}", f"![make|create|build|generate|prepare|produce|derive|form|write|construct|compose] {{to}} [from|with|for|of|based on|using] {ITS}", f"![extract|take|pull|collect|read|gather] {ITS} [as|into|and write {{to}}|in|and give {{to}}|and make {{to}}]",
    f"I <want> {ITS} [as|in|to be|converted to|turned into|written as] {{to}}", f"I <want> {{to}} [from|of|for] {ITS}", "[The|This|My] [data|{kind}|input|record|text|content] <should> [be|become|be written as|be in|be turned into|be converted to|be given as|look like|end up as|be presented as] {to}", f"[How|What] [would|does|do] {ITS} [look|be|read] [as|in] {{to}}?",
    "[From {kind} to {to}|{kind} to {to}|{kind} -> {to}|To {to}|{to}, please|As {to}|In {to}|{to} version|Target: {to}|Output: {to}|Output format: {to}|Format: {to}|Wanted: {to}|Now {to}|Not {kind} but {to}|Same in {to}|{to} instead of {kind}]", "![convert|go|translate|change|switch] from {kind} to {to}", "![use|choose|prefer|write] {to} instead of {kind}", "[This is|Here is|I have|You see|Given is|I got|There is] {kind}[, but|. But| and|, and] I <want> {to}", "[My program|The tool|The server|The reader|The form|The system] [needs|reads|wants|accepts only|expects|takes] {to}[, not {kind}|]",
    "![store|save|encode|express|represent|present|serialize|render|dump|export|pack] " + ITS + " [as|in|to] {to}", "![turn|rewrite|make] {to} [out of|from] " + ITS, "[Is it possible to have|Can I have|Could I get|May I have|Can I get] " + ITS + " [as|in] {to}?",
)  # fmt: skip
BODY_LAYOUTS = (
    "{ask}:\n\n{body}", "{ask}:\n\n{body}", "{ask}.\n\n{body}", "{body}\n\n{ask}.", "{body}\n\n{ask}.", "{body}\n\n{ask}", "{ask}:\n{body}", "{body}\n{ask}", "{ask}: {body}", "[<see>|Data|Input|Text|Content|Here|This][:|:\n|.\n]\n{body}\n\n{ask}.", "{ask}. [Here it is|Data|Input|Here|This is it|The data|The text|See below|Here you go][:|:\n|.\n]\n{body}",
    "{context} {ask}:\n\n{body}", "{context}\n\n{body}\n\n{ask}.", "{ask}[. Change no value|. Keep all values|. Keep the order|. Do not add anything|. Only the result|. No comments|. Nothing else]:\n\n{body}", "{body}\n\n{context} {ask}.",
)  # fmt: skip
