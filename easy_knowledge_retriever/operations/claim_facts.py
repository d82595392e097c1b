"""What a sentence says that must be exactly so in its source: quantities, names, negations, and who does what to whom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from easy_knowledge_retriever.text.analyzer import analyze
from easy_knowledge_retriever.text.folding import fold
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = [
    "Quantity",
    "contradicts",
    "list_numbers",
    "misplaces_numbers",
    "missing_names",
    "missing_quantities",
    "opposes",
    "quantities",
    "swaps_roles",
]

_UNITS: Mapping[str, str] = MappingProxyType(
    {
        word: unit
        for unit, words in {
            "%": "% percent percents prozent procent",
            "eur": "€ eur euro euros",
            "usd": "$ usd dollar dollars us$",
            "gbp": "£ gbp pound pounds",
            "second": "second seconds seconde secondes sekunde sekunden",
            "minute": "minute minutes minuten",
            "hour": "hour hours heure heures stunde stunden hora horas ora ore",
            "day": "day days jour jours tag tage tagen dia dias giorno giorni",
            "week": "week weeks semaine semaines woche wochen semana semanas",
            "month": "month months mois monat monate monaten mes meses mese mesi",
            "year": "year years annee annees an ans jahr jahre jahren ano anos anni",
            "km": "km kilometre kilometres kilometer kilometers kilometern",
            "m": "m metre metres meter meters",
            "cm": "cm centimetre centimetres centimeter centimeters",
            "mm": "mm millimetre millimetres millimeter millimeters",
            "mile": "mile miles",
            "foot": "foot feet ft",
            "kg": "kg kilogram kilograms kilogramme kilogrammes kilo kilos",
            "g": "g gram grams gramme grammes",
            "tonne": "tonne tonnes ton tons",
            "litre": "l litre litres liter liters",
            "article": "article articles art artikel articulo articolo",
            "annex": "annex annexes annexe anhang anexo allegato",
            "chapter": "chapter chapters chapitre chapitres kapitel capitulo capitolo",
            "section": "section sections abschnitt seccion sezione",
            "paragraph": "paragraph paragraphs paragraphe paragraphes absatz",
            "recital": "recital recitals considerant considerants",
            "point": "point points",
            "figure": "figure figures fig abbildung",
            "table": "table tables tableau tableaux tabelle",
            "step": "step steps etape etapes schritt",
            "celsius": "°c celsius",
            "january": "january janvier januar enero gennaio janeiro januari",
            "february": "february fevrier februar febrero febbraio fevereiro februari",
            "march": "march mars marz marzo marco maart",
            "april": "april avril abril aprile",
            "may": "may mai mayo maggio maio mei",
            "june": "june juin juni junio giugno junho",
            "july": "july juillet juli julio luglio julho",
            "august": "august aout agosto augustus",
            "september": "september septembre septiembre settembre setembro",
            "october": "october octobre oktober octubre ottobre outubro",
            "november": "november novembre noviembre novembro",
            "december": "december decembre dezember diciembre dicembre dezembro",
        }.items()
        for word in words.split()
    }
)
"""Folded word or sign to what it measures; the month is the unit of a day, so that a date is a quantity."""
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_CURRENCIES = frozenset({"eur", "usd", "gbp"})
_LABELS = frozenset({"article", "annex", "chapter", "section", "paragraph", "recital", "point", "figure", "table", "step"})
"""Units that stand before their number only."""
_MULTIPLIERS: Mapping[str, int] = MappingProxyType(
    {
        "thousand": 1_000, "mille": 1_000, "tausend": 1_000, "mil": 1_000,
        "million": 10**6, "millions": 10**6, "millionen": 10**6, "millones": 10**6,
        "billion": 10**9, "billions": 10**9, "milliard": 10**9, "milliards": 10**9, "milliarden": 10**9,
    }
)  # fmt: skip
_NUMBER_WORDS: Mapping[str, str] = MappingProxyType(
    {
        word: str(value)
        for value, words in {
            2: "two deux zwei dos due", 3: "three trois drei tres tre", 4: "four quatre vier cuatro quattro",
            5: "five cinq funf cinco cinque", 6: "six sechs seis sei", 7: "seven sept sieben siete sette",
            8: "eight huit acht ocho otto", 9: "nine neuf neun nueve nove", 10: "ten dix zehn diez dieci",
            11: "eleven onze elf once undici", 12: "twelve douze zwolf doce dodici", 14: "fourteen quatorze",
            15: "fifteen quinze", 16: "sixteen seize", 18: "eighteen", 20: "twenty vingt zwanzig veinte", 24: "twentyfour",
            30: "thirty trente dreissig treinta", 36: "thirtysix", 40: "forty quarante", 50: "fifty cinquante",
            60: "sixty soixante", 90: "ninety", 100: "hundred cent hundert cien",
        }.items()
        for word in words.split()
    }
)  # fmt: skip

_TOKEN = re.compile(
    r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.,]\d)|\d+(?:[.,'’]\d+)*|US\$|°C|[%€$£]|[^\W\d_]+(?:['’][^\W\d_]+)?|[.,;:()!?]"
)
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_LIST_ITEM = re.compile(r"^[ \t]*\(?(\d{1,3})[.)]", re.MULTILINE)
_LISTED = "listed"
"""The unit of the number of a list item, and of a number in parentheses after another one."""
_LIST_NUMBER = re.compile(r"^\W*(?:\d{1,3}|[a-z])[.)]\s", re.IGNORECASE)
_PER_CENT = re.compile(r"\b(?:per|pour|por) (?:cent|ciento)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it measures."""

    value: str
    unit: str = ""


def quantities(text: str, *, every_word: bool = False) -> frozenset[Quantity]:
    """The numbers of a text, in one form whatever the language: ``35 million euros`` is ``EUR 35 000 000``.

    Args:
        text: What to read.
        every_word: Also a number in words that measures nothing, as in "two kinds".
    """
    tokens = _tokens(text)
    found = set()
    for at, token in enumerate(tokens):
        word = _NUMBER_WORDS.get(token)
        if word is None and not token[0].isdigit():
            continue
        value, after = _multiplied(word or _canonical(token), tokens, at + 1)
        if _is_reference(tokens, at):
            found.add(Quantity(value, _LISTED))
            continue
        unit = _unit_after(tokens, after) or (_unit_before(tokens[at - 1], value) if at else "")
        if word is None or unit or every_word:
            found.add(Quantity(value, unit))
    return frozenset(found)


def list_numbers(text: str) -> frozenset[Quantity]:
    """The numbers of the list items of a text, which "Article 6(4)" and "point 2" refer to."""
    return frozenset(Quantity(str(int(number)), _LISTED) for number in _LIST_ITEM.findall(text))


def _tokens(text: str) -> list[str]:
    plain = _PER_CENT.sub("%", _ISO_DATE.sub(_spelt_date, _LIST_NUMBER.sub("", text)))
    return [fold(token) for token in _TOKEN.findall(plain)]


def _spelt_date(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    return f"{int(day)} {_MONTHS[int(month) - 1]} {year}" if 1 <= int(month) <= 12 else match[0]


def _canonical(number: str) -> str:
    if _GROUPED.fullmatch(number) and not number.startswith("0"):
        return re.sub(r"\D", "", number)
    whole, _, part = re.sub(r"[\s'’]", "", number).replace(",", ".").rpartition(".")
    if not whole or ("," not in number and "." in whole):  # a section such as 3.2.1 is no decimal
        return f"{whole}.{part}" if whole else part
    return f"{whole.replace('.', '')}.{part}".rstrip("0").rstrip(".")


def _is_reference(tokens: Sequence[str], at: int) -> bool:
    """Whether a number stands in parentheses right after another number or parenthesis: 6(4)."""
    return 2 <= at < len(tokens) - 1 and tokens[at - 1] == "(" and tokens[at + 1] == ")" and tokens[at - 2][0] in "0123456789)"


def _multiplied(value: str, tokens: Sequence[str], at: int) -> tuple[str, int]:
    factor = _MULTIPLIERS.get(tokens[at]) if at < len(tokens) else None
    if factor is None or value.count(".") > 1:
        return value, at
    whole, _, part = value.partition(".")
    digits = len(str(factor)) - 1
    if len(part) > digits:
        return value, at
    return str(int(whole + part.ljust(digits, "0"))), at + 1


def _unit_after(tokens: Sequence[str], at: int) -> str:
    """The unit that follows a number, an article or adjective between them at most: "35 millions d'euros", "15 working days"."""
    for token in tokens[at : at + 2]:
        unit = _UNITS.get(token.rpartition("'")[2])
        if unit and unit not in _LABELS:
            return "" if unit in _MONTHS and len(tokens[at - 1]) > 2 else unit
        if token in ".,;:()!?" or token[0].isdigit():
            return ""
    return ""


def _unit_before(token: str, value: str) -> str:
    unit = _UNITS.get(token, "")
    return unit if unit in _CURRENCIES | _LABELS or (unit in _MONTHS and len(value) <= 2) else ""


def missing_quantities(claim: Iterable[Quantity], held: Collection[Quantity]) -> set[Quantity]:
    """Those of a claim that are not held: the number is missing, or there it measures something else."""
    units: dict[str, set[str]] = {}
    for quantity in held:
        units.setdefault(quantity.value, set()).add(quantity.unit)
    return {quantity for quantity in claim if not _fits(quantity.unit, units.get(quantity.value, set()))}


def _fits(unit: str, held: Collection[str]) -> bool:
    if unit == _LISTED:
        return bool(held)
    if unit in _LABELS:
        return bool({unit, "", _LISTED} & set(held))
    return bool({unit, ""} & set(held)) if unit else any(other != _LISTED for other in held)


def misplaces_numbers(claim: str, source: str) -> bool:
    """Whether a claim has numbers of its source where the source has others.

    That is so where a number occurs more often than in the source, and where it stands between two neighbours that have
    another number between them in the source, while the number itself is never next to the first of them.
    """
    stated, told = _slots(_tokens(claim)), _slots(_tokens(source))
    occurring = Counter(number for _, number, _ in told)
    if any(0 < occurring[number] < count for number, count in Counter(number for _, number, _ in stated).items()):
        return True
    return any(
        before.isalpha()
        and any(slot[0] == before and slot[2] == after and slot[1] != number for slot in told)
        and not any(slot[0] == before and slot[1] == number for slot in told)
        for before, number, after in stated
    )


def _slots(tokens: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each number with the tokens before and after it."""
    padded = ["", *tokens, ""]
    return [(padded[at - 1], _canonical(token), padded[at + 1]) for at, token in enumerate(padded) if token[:1].isdigit()]


_NAME_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_CAPITALISED_NOUNS = frozenset({"de"})
"""Languages that write every noun with a capital."""


def missing_names(claim: str, held: str, language: str) -> tuple[str, ...]:
    """Words of a claim that are written like names and do not occur in a text, in any case, nor as the initials of words in it.

    The first word of a sentence is no name by its capital alone.

    Args:
        claim: A sentence.
        held: What it is compared with.
        language: That of the claim; where nouns are capitalised nothing can be told.
    """
    if language in _CAPITALISED_NOUNS:
        return ()
    words = _NAME_WORD.findall(claim)
    names = [word for word in words[1:] if word[0].isupper() and not _is_ordinary(word)]
    if len(words) > 1 and words[0][0].isupper() and words[1][0].isupper() and not _is_ordinary(words[0]):
        names.append(words[0])
    if not names:
        return ()
    there = frozenset(analyze(held, language or None)) | frozenset(map(fold, _NAME_WORD.findall(held)))
    initials = "".join(word[0] for word in _NAME_WORD.findall(held) if word[0].isupper())
    return tuple(
        name
        for name in names
        if not (set(analyze(name, language or None)) <= there or fold(name) in there or (name.isupper() and name in initials))
    )


def _is_ordinary(word: str) -> bool:
    folded = fold(word)
    return folded in _UNITS or folded in _FUNCTION


_FUNCTION = frozenset(fold(word) for words in FUNCTION_WORDS.values() for word in words)

_CUES = frozenset(
    """
    not cannot never no none neither nor nobody nothing
    pas jamais aucun aucune aucunement nullement ni rien non
    nicht nie niemals kein keine keinem keinen keiner keines nichts weder
    nunca jamas ningun ninguna tampoco nessun nessuna nessuno mai nao nenhum nenhuma niet geen nooit
    """.split()
)
_SOFT = re.compile(
    r"\b(?:without|unless|except\w*|exempt\w*|exclu\w+|prohibit\w*|forbid\w*|ban|bans|banned|refus\w+|den(?:y|ies|ied)|lack\w*|fail\w*|"
    r"absen\w+|sans|sauf|interdi\w+|derog\w+|prohib\w+|depourvu\w*|manqu\w+|ohne|verboten\w*|sin|senza|hardly|barely|"
    r"unable|impossible|incapable|illegal\w*|unlawful\w*)\b"
)
"""Words that negate without being negations: where the source has one, a claim may say the same with "not"."""
_NO_NEGATION = re.compile(
    r"\b(?:not only|not (?:more|less|later|fewer|earlier) than|no (?:more|less|later|fewer|earlier) than|not exceeding|"
    r"whether or not|no\.|non seulement|pas seulement|pas plus|nicht nur|at no\b|non[- ](?=\w))|\bno(?=\s*\d)"
)
_CLAUSE_END = frozenset(".,;:()!?")
_AFTER_CUE = 3
_AROUND = 5
"""Terms on both sides of a negation of the source that show whether the claim speaks of the same."""
_NEAR = 0.6
"""Share of them that the claim must hold to be contradicted."""


_OPPOSITES = (
    (
        r"\b(?:at least|(?:no|not) (?:less|fewer|earlier) than|minimum|au moins|au minimum|mindestens|al menos|almeno)\b",
        r"\b(?:at most|up to|(?:no|not) (?:more|later) than|not exceeding|not exceed|maximum|au plus|au maximum|jusqu'a|"
        r"hochstens|bis zu|como maximo|al massimo)\b",
    ),
    (
        r"\b(?:permit\w*|allow\w*|authori[sz]e\w*|autoris\w*|permet\w*|permis\w*|erlaubt?)\b",
        r"\b(?:prohibit\w*|forbid\w*|banned|interdi\w*|verboten\w*)\b",
    ),
    (r"\b(?:before|avant|prior to)\b", r"\b(?:after|apres)\b"),
    (r"\b(?:more|greater|higher|plus grand\w*|superieure?s?)\b", r"\b(?:less|smaller|lower|fewer|inferieure?s?)\b"),
    (r"\b(?:increas\w+|augment\w+)\b", r"\b(?:decreas\w+|reduc\w+|diminu\w+|reduit\w*)\b"),
)
_COMPARABLE = 2.5
_OPPOSED = tuple((re.compile(one), re.compile(other)) for one, other in _OPPOSITES)
"""Words of opposite meaning: who says one and not the other says the contrary of who says the other and not the one."""


def opposes(claim: str, source: str) -> bool:
    """Whether a claim says "at least" where the source says "at most", and the like; a long source says much else."""
    if len(source) > _COMPARABLE * len(claim):
        return False
    stated, told = fold(claim), fold(source)
    for one, other in _OPPOSED:
        in_claim = (one.search(stated) is not None, other.search(stated) is not None)
        in_source = (one.search(told) is not None, other.search(told) is not None)
        if in_claim in {(True, False), (False, True)} and in_source == in_claim[::-1]:
            return True
    return False


def _scopes(text: str, language: str, before: int | None = None, after: int = _AFTER_CUE) -> list[frozenset[str]]:
    """For each negation the terms next to it, within its clause: what it negates."""
    if before is None:
        before = 0 if language == "en" else 1
    folded = _NO_NEGATION.sub(" ", fold(text).replace("n't", " not"))
    tokens = _TOKEN.findall(folded)
    found = []
    for at, token in enumerate(tokens):
        if token in _CUES and not (token == "pas" and tokens[at - 1 : at] == ["un"]):
            words = (*_clause(reversed(tokens[:at]))[:before], *_clause(tokens[at + 1 :])[:after])
            found.append(frozenset(analyze(" ".join(words), language or None)))
    return found


def _clause(tokens: Iterable[str]) -> list[str]:
    """Content words up to the end of the clause."""
    words: list[str] = []
    for token in tokens:
        if token in _CLAUSE_END:
            break
        if token not in _FUNCTION and token not in _CUES:
            words.append(token)
    return words


def contradicts(claim: str, source: str, language: str, *, same_language: bool = True) -> bool:
    """Whether one of the two negates what the other affirms.

    A negation of the claim must have one in the source that is next to a common term, or a word such as "without"; a
    negation of the source whose terms the claim holds must be in the claim. In another language only the presence of
    negations is compared, and only where claim and source are of like length.

    Args:
        claim: A sentence.
        source: What carries it.
        language: That of both.
        same_language: False if the source is in another one.
    """
    in_claim, in_source = _scopes(claim, language), _scopes(source, language)
    # A word such as "without" that both have stands for itself on both sides and explains no "not".
    soft_claim, soft_source = (set(_SOFT.findall(fold(text))) for text in (claim, source))
    if in_claim and not in_source:
        return not (soft_source - soft_claim if same_language else soft_source)
    if not same_language:
        alike = len(source) <= 2 * len(claim)
        return bool(in_source) and not in_claim and alike and not soft_claim
    if any(scope and not any(scope & other for other in in_source) for scope in in_claim):
        return not soft_source - soft_claim
    if soft_claim - soft_source:
        return False
    terms = frozenset(analyze(claim, language or None))
    around = _scopes(source, language, before=_AROUND, after=_AROUND)
    return any(
        scope
        and len(scope & terms) >= min(2, len(scope))
        and len(near & terms) >= _NEAR * len(near)
        and not any(scope & other for other in in_claim)
        for scope, near in zip(in_source, around, strict=True)
    )


_PASSIVE = re.compile(r"\b(?:by|par|von|durch|por|da|dal|dalla|door)\b")
_SYMMETRIC = frozenset(
    analyze("and or with between meets met marries married borders equals differs plays played joins joined near", "en")
) | frozenset(analyze("et ou avec entre rencontre épouse épousa touche égale diffère", "fr"))


def swaps_roles(claim: str, source: str, language: str) -> bool:
    """Whether a claim says "A does x to B" where the source says "B does x to A": the same three units, ends exchanged.

    Only neighbouring content words are compared, and nothing is said where one of the two is in the passive voice.
    """
    if bool(_PASSIVE.search(fold(claim))) != bool(_PASSIVE.search(fold(source))):
        return False
    stated, told = set(_triples(claim, language)), set(_triples(source, language))
    return any(
        (third, second, first) in told and (first, second, third) not in told and second[0] not in _SYMMETRIC and first != third
        for first, second, third in stated
    )


def _triples(text: str, language: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    """Each three neighbouring units of the clauses: a run of capitalised words is one, any other content word is one."""
    clause: list[tuple[str, ...]] = []
    run = False
    for token in (*_TOKEN.findall(text), "."):
        if token in _CLAUSE_END:
            yield from zip(clause, clause[1:], clause[2:], strict=False)
            clause, run = [], False
            continue
        terms = analyze(token, language or None)
        if terms and run and token[0].isupper():
            clause[-1] = (*clause[-1], *terms)
        elif terms:
            clause.append(terms)
        run = bool(terms) and token[0].isupper()
