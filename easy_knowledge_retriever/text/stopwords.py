"""Function words of seven languages. BM25 leaves them out, and a text's language is told by them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["FUNCTION_WORDS"]

_ENGLISH = """
a about above after again against all also although am among an and any are as at be because been before being below
between both but by can cannot could did do does doing done down during each either else for from further had has have
having he her here hers herself him himself his how however i if in into is it its itself just may me might more most must
my myself neither no nor not now of off on once only or other our ours ourselves out over own per same shall she should
since so some such than that the their theirs them themselves then there therefore these they this those though through to
too toward towards under until up upon us very was we were what when where whereas whether which while who whom whose why
will with within without would yet you your yours yourself s t d ll re ve don
"""
_FRENCH = """
a à afin ai ainsi alors après as au aucun aucune aussi autre autres aux avaient avait avant avec avoir c car ce ceci cela
celle celles celui ces cet cette ceux chaque chez ci comme comment d dans de depuis des dès donc dont du duquel elle elles en
encore entre es est et étaient était étant été être eu eux fait font furent fut ici il ils j je jusqu jusque l la là laquelle
le lequel les lesquelles lesquels leur leurs lors lorsqu lorsque lui m ma mais me même mêmes mes moi moins mon n ni non nos
notre nous on ont ou où par parce pas pendant peu peut peuvent plus pour pourquoi puis puisque qu quand que quel quelle quelles
quels qui quoi s sa sans se selon sera seront ses si son sont sous sur t ta tandis te tel telle telles tels tes toi ton tous
tout toute toutes très tu un une vers vos votre vous y
"""
_GERMAN = """
ab aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist da dabei damit
dann das dass daß dazu dein deine dem den denn der deren des dessen die dies diese diesem diesen dieser dieses doch dort du
durch ein eine einem einen einer eines er es etwas euch euer für gegen gewesen hab habe haben hat hatte hatten hier hin
hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in indem ins ist jede jedem jeden jeder jedes jene jener kann
kein keine keinem keinen keiner können könnte man manche mein meine mich mir mit muss müssen musste nach nicht nichts noch
nun nur ob oder ohne sehr sein seine seinem seinen seiner seines seit selbst sich sie sind so solche soll sollen sollte
sondern sonst über um und uns unser unsere unter viel vom von vor während war waren was weil welche welchem welchen welcher
welches wenn wer werde werden wie wieder will wir wird wirst wo worden wurde wurden zu zum zur zwar zwischen
"""
_SPANISH = """
a al algo algunas algunos ante antes aquel aquella así aun aunque cada como cómo con contra cual cuál cuales cuáles cuando
cuándo cuanto de del desde después donde dónde dos durante e el él ella ellas ellos en entre era eran es esa esas ese eso
esos esta está estaba están estas este esto estos fue fueron ha había habían han has hasta hay la las le les lo los más me
mediante mi mientras mis mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra otras otro otros para pero poco
por porque pues que qué quien quién quienes se sea sean según ser será si sí sido siempre sin sino sobre son su sus también
tan tanto te tenía tiene tienen todo todos tras tu tus u un una unas uno unos y ya yo
"""
_ITALIAN = """
a ad agli ai al alla alle allo anche ancora avere aveva c che chi ci ciò co coi col come con contro cui d da dagli dai dal
dalla dalle dallo degli dei del dell della delle dello di dopo dove e è ed ella era erano essere fra fu furono gli ha hai
hanno ho i il in io l la le lei li lo loro lui ma mentre mi mia mio ne negli nei nel nell nella nelle nello no noi non nostra
nostro o ogni oltre per perché perciò più poi prima qual quale quali quando quanto quella quelle quelli quello questa queste
questi questo qui quindi se sé sempre senza si sia sono sopra sotto stata state stati stato su sua sue sugli sui sul sulla
sulle sullo suo suoi tra tu tutta tutte tutti tutto un una uno vi voi
"""
_PORTUGUESE = """
a à ainda ao aos aquela aquelas aquele aqueles aquilo as às até cada com como contra da das de dela delas dele deles depois
desde dessa desse desta deste do dos durante e é ela elas ele eles em enquanto entre era eram essa essas esse esses esta está
estão estas estava este estes eu foi foram há isso isto já lhe lhes mais mas me mesmo meu minha muito muitos na não nas nem
nessa nesse nesta neste no nos nós nossa nosso num numa o onde os ou para pela pelas pelo pelos per por porque qual quais
quando quanto que quem se seja sem sempre sendo ser será seu seus sido sob sobre sua suas são só também tem têm ter tinha
toda todas todo todos tu um uma uns você vocês
"""
_DUTCH = """
aan al alle alleen als alsof altijd ander andere anders beide ben bij bijvoorbeeld daar daarom dan dat de deze die dit doch
doen door dus echter een eens elk elke en er geen geweest haar had hadden heb hebben heeft hem het hier hij hoe hun ieder
iedere iets ik in indien is ja je jij jullie kan kon konden kunnen maar me meer men met mij mijn moet moeten na naar niet
niets nog nooit nu of om omdat onder ons onze ook op over reeds s samen sinds slechts te tegen tijdens toch toen tot tussen
uit uw van vanaf veel voor waar waarin waarom wanneer want waren was wat we welk welke werd werden wie wij wil worden wordt
ze zei zelf zich zij zijn zo zoals zonder zou zouden
"""

FUNCTION_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "en": frozenset(_ENGLISH.split()),
        "fr": frozenset(_FRENCH.split()),
        "de": frozenset(_GERMAN.split()),
        "es": frozenset(_SPANISH.split()),
        "it": frozenset(_ITALIAN.split()),
        "pt": frozenset(_PORTUGUESE.split()),
        "nl": frozenset(_DUTCH.split()),
    }
)
"""Language code to its function words, in lower case and with their accents."""
