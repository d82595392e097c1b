"""Telling a refusal from an answer, in the words of a model: it rarely keeps to the sentence it was told to write."""

from __future__ import annotations

import re
from typing import Final

from easy_knowledge_retriever.text.sentences import sentences

__all__ = ["refuses"]

_LONGEST_SENTENCE = 400
"""Characters of a sentence that may refuse."""
_LONGEST = 2000
"""Characters of a text that only refuses."""
_CITED: Final = re.compile(r"\s*[\[［【][^\[\]\n]{0,40}\d[^\[\]\n]{0,40}[\]］】]")
_EMPHASIS: Final = re.compile(r"[*_`#>]+")
_GAP: Final = r"[^.!?\n]{0,90}?"
_FEW: Final = r"(?:[\w'’-]+\s+){0,3}?"


def _either(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


_EN_TEXT = r"\b(?:documents?|passages?|context|sources?|texts?|excerpts?|extracts?|information|materials?|facts)\b"
_EN_GIVE = (
    r"(?:cover|contain|mention|address|provid|includ|answer|discuss|say|stat|specif|giv|describ|treat|indicat|tell|explain|"
    r"offer|have|name|report|deal|allow)\w*"
)
_EN_GIVEN = (
    r"(?:covered|mentioned|addressed|contained|provided|discussed|answered|stated|specified|given|included|described|found)"
)
_FR_TEXT = r"\b(?:documents?|passages?|contexte|sources?|textes?|extraits?|informations?)\b"
_FR_GIVE = r"(?:trait|contien|mentionn|abord|couvr|répond|précis|fourni|indiqu|donn|parl|dis|évoqu|permet|port)\w*"
_DE_TEXT = r"\b(?:Dokument\w*|Passagen?|Kontext\w*|Quellen?|Text\w*|Abschnitt\w*|Auszüg\w*|Informationen)\b"
_DE_GIVE = r"(?:behand|enth[aä]lt|erwähn|beantwort|nenn|geb|gib|sag|liefer|beschreib|entnehm)\w*"
_ES_TEXT = r"\b(?:documentos?|pasajes?|contexto|fuentes?|textos?|fragmentos?|información)\b"
_ES_GIVE = r"(?:trata|contien|mencion|abord|cubr|respond|indic|dic|proporcion|especific|ofrec|habl)\w*"
_IT_TEXT = r"\b(?:documento|documenti|passaggi\w*|contesto|fonti|test[io]|bran[io]|informazioni)\b"
_IT_GIVE = r"(?:tratta|conten|contien|menzion|affront|copr|rispond|indic|dic|forni|specific|riport)\w*"
_PT_TEXT = r"\b(?:documentos?|passagens|passagem|contexto|fontes?|textos?|trechos?|informaç\w+)\b"
_PT_GIVE = r"(?:aborda|conté|contê|mencion|trata|cobre|respond|indic|diz|fornec|especific)\w*"
_NL_TEXT = r"\b(?:document(?:en)?|passages?|context|bron(?:nen)?|tekst(?:en)?|fragment(?:en)?|informatie)\b"
_NL_GIVE = r"(?:behandel|bevat|vermeld|noem|beantwoord|geef|geven|zeg|beschrij)\w*"

_REFUSING: Final = _either(
    # English
    rf"{_EN_TEXT}{_GAP}\b(?:do|does|did)(?:\s+not|n['’]t)\s+{_FEW}{_EN_GIVE}",
    rf"{_EN_TEXT}{_GAP}\b(?:contain|provide|give|offer|hold|make|include)s?\s+no\b",
    rf"\b(?:there\s+is|there['’]s|there\s+are|i\s+(?:found|have|see))\s+no\s+{_FEW}(?:information|mention|answer|data|details?)\b",
    rf"\bno\s+{_FEW}(?:information|mention|answer)\b{_GAP}{_EN_TEXT}",
    rf"\b(?:is|are|was|were)(?:\s+not|n['’]t)\s+{_FEW}{_EN_GIVEN}\b{_GAP}{_EN_TEXT}",
    r"\b(?:can\s?not|can['’]t|could\s+not|couldn['’]t|unable\s+to|not\s+able\s+to|not\s+possible\s+to)\s+(?:be\s+)?"
    rf"(?:answer|determin)\w*{_GAP}(?:{_EN_TEXT}|\bquestion\b|\bthis\b|\bthat\b)",
    rf"(?:{_EN_TEXT}|\bquestion\b){_GAP}\b(?:can\s?not|can['’]t|could\s+not)\s+be\s+(?:answered|determined)",
    r"^i\s+(?:do\s+not|don['’]t)\s+know\b",
    rf"^(?:this\s+(?:question\s+)?is\s+)?not\s+{_EN_GIVEN}\W*$",
    # French
    rf"{_FR_TEXT}{_GAP}\bn(?:e\s+|['’]){_FEW}{_FR_GIVE}\s+(?:\w+\s+)?(?:pas|rien|point|aucune?|nulle\s+part)\b",
    rf"\baucune?\s+(?:information|mention|réponse|indication|document|passage|source){_GAP}\bn(?:e\b|['’])",
    r"\bil\s+n['’]y\s+a\s+(?:pas\s+d['’e]\s*|aucune?\s+)(?:information|mention|réponse|indication)",
    r"\b(?:je\s+ne\s+(?:peux|puis|sais)\s+pas|impossible\s+de|il\s+n['’]est\s+pas\s+possible\s+de)\s+(?:répondre|dire|déterminer)",
    r"^je\s+ne\s+sais\s+pas\b",
    # German
    rf"{_DE_TEXT}{_GAP}\b{_DE_GIVE}{_GAP}\b(?:nicht|keine\w*|nichts)\b",
    rf"\b(?:nicht|keine\w*){_GAP}{_DE_TEXT}{_GAP}\b(?:behandelt|erwähnt|enthalten|beantwortet|genannt|entnehmen)\b",
    rf"{_DE_TEXT}{_GAP}\b(?:nicht|keine\w*){_GAP}\b(?:behandelt|erwähnt|enthalten|beantwortet|genannt|entnehmen|gibt)\b",
    rf"\b(?:kann|können|lässt\s+sich){_GAP}\bnicht\s+{_FEW}beantwort\w*",
    r"^(?:das\s+)?weiß\s+ich\s+nicht\b",
    # Spanish
    rf"{_ES_TEXT}{_GAP}\bno\s+{_FEW}{_ES_GIVE}",
    rf"\bno\s+(?:hay|existe|contienen?)\s+{_FEW}(?:información|respuesta|mención|datos)\b",
    rf"\bno\s+se\s+(?:menciona|indica|especifica|trata){_GAP}{_ES_TEXT}",
    r"\bno\s+(?:puedo|es\s+posible|se\s+puede)\s+responder\b",
    r"^no\s+lo\s+sé\b",
    # Italian
    rf"{_IT_TEXT}{_GAP}\bnon\s+{_FEW}{_IT_GIVE}",
    r"\bnon\s+(?:ci\s+sono|c['’]è|contengono)\s+(?:\w+\s+)?(?:informazioni|risposta|indicazioni)\b",
    r"\bnon\s+(?:posso|è\s+possibile|si\s+può)\s+rispondere\b",
    r"^non\s+lo\s+so\b",
    # Portuguese
    rf"{_PT_TEXT}{_GAP}\bnão\s+{_FEW}{_PT_GIVE}",
    r"\bnão\s+(?:há|existe[m]?|contêm)\s+(?:\w+\s+)?(?:informaç\w+|resposta|menção)\b",
    r"\bnão\s+(?:posso|é\s+possível|consigo)\s+responder\b",
    r"^não\s+sei\b",
    # Dutch
    rf"{_NL_TEXT}{_GAP}\b{_NL_GIVE}{_GAP}\b(?:niet|geen|niets)\b",
    rf"\b(?:niet|geen){_GAP}{_NL_TEXT}{_GAP}\b(?:behandeld|vermeld|genoemd|beantwoord)\b",
    rf"\bkan{_GAP}\bniet\s+{_FEW}beantwoord\w*",
    r"^(?:dat\s+)?weet\s+ik\s+niet\b",
)
_BUT: Final = re.compile(
    r"\b(?:but|however|although|yet|nevertheless|mais|cependant|toutefois|aber|jedoch|allerdings|sondern|pero|sin\s+embargo|aunque|"
    r"ma|tuttavia|però|mas|porém|contudo|maar|echter)\b\W+(?=\w+\W+\w+\W+\w+)",
    re.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Whether a text only says that the documents do not cover the question.

    It begins by saying so, in the words of the library or near them and in any of its languages, with or without a
    citation; and nothing else in it is cited or begins with a "but". What answers a part of the question is no refusal.

    Args:
        text: The answer of a model.
    """
    if len(text) > _LONGEST:
        return False
    plain = _EMPHASIS.sub("", text).strip()
    spans = sentences(plain)
    if not spans:
        return False
    start, end = spans[0]
    first = _CITED.sub("", plain[start:end]).strip()
    if not first or len(first) > _LONGEST_SENTENCE or not _REFUSING.search(first) or _BUT.search(first):
        return False
    while own := _CITED.match(plain, end):
        end = own.end()
    return not _CITED.search(plain, end) and not _BUT.search(plain, end)
