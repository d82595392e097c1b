"""Answers written by a language model from the passages, with citations that are checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from easy_knowledge_retriever.llm.base import Ending, LLMService, Message
from easy_knowledge_retriever.llm.wrappers import Request
from easy_knowledge_retriever.operations.answering import REFUSALS, refusal
from easy_knowledge_retriever.operations.base import Answer, Answerer, AnswerRequest, PromptHook
from easy_knowledge_retriever.operations.citation_check import WORDS_ONLY, CheckedAnswer, Checking, check_citations
from easy_knowledge_retriever.operations.citation_markers import markers_in
from easy_knowledge_retriever.operations.refusals import refuses
from easy_knowledge_retriever.operations.showing import ShownText, unescaped
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.query import DEFAULT_FORM
from easy_knowledge_retriever.text.hashing import digest

__all__ = ["LLMAnswerer"]

_PROMPTS = PromptSet()


class LLMAnswerer(Answerer):
    """Has a language model answer from the context, and checks what it cites.

    Args:
        model: The language model, with its wrappers around it.
        prompts: The prompts.
        on_prompt: Sees each prompt before it is sent; what it raises stops the call.
        checking: What else than words checks the claims.
    """

    def __init__(
        self,
        model: LLMService,
        prompts: PromptSet = _PROMPTS,
        *,
        on_prompt: PromptHook | None = None,
        checking: Checking = WORDS_ONLY,
    ) -> None:
        self._model = model
        self._prompts = prompts
        self._on_prompt = on_prompt
        self._checking = checking

    async def answer(self, request: AnswerRequest) -> Answer:
        """The whole answer. Where there is no context, the refusal, without asking the model.

        Raises:
            UpstreamError: The model failed.
        """
        if _has_nothing(request):
            return Answer(refusal(request.question), refused=True)
        completion = await self._model.complete(self._seen(request))
        return await self._ended(request, completion.text, completion.finish_reason)

    async def stream(self, request: AnswerRequest) -> AsyncGenerator[str | Answer]:
        """The answer in pieces, then the checked answer.

        Raises:
            UpstreamError: The model failed, perhaps after some pieces.
        """
        if _has_nothing(request):
            yield refusal(request.question)
            yield Answer(refusal(request.question), refused=True)
            return
        text: list[str] = []
        finish_reason, shown = "stop", ShownText(request.context.passages if request.grounded else None)
        async with aclosing(Request(self._seen(request)).stream(self._model)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Ending):
                    finish_reason = piece.finish_reason
                text.append(piece)
                yield shown.feed(piece)
        yield shown.rest()
        yield await self._ended(request, "".join(text), finish_reason)

    async def _ended(self, request: AnswerRequest, text: str, finish_reason: str) -> Answer:
        answer = await self.finish(request, text)
        cut = ("the model stopped at its limit of tokens: the answer is cut",) if finish_reason == "length" else ()
        return replace(answer, warnings=(*cut, *answer.warnings))

    async def finish(self, request: AnswerRequest, text: str) -> Answer:
        """The answer a text amounts to: citations of passages that were not given taken out, the others checked."""
        text = text.strip()
        if not request.grounded:
            return Answer(text)
        # The passages were escaped, so a sentence that was copied from them still is.
        text = unescaped(text)
        if refuses(text):
            nothing = CheckedAnswer(_uncited(text))
            return Answer(nothing.text, refused=True, counts=nothing.counts)
        checked = await check_citations(text, request.context.passages, REFUSALS, self._checking)
        silent = ("the answer cites nothing",) if not checked.citations else ()
        return Answer(
            checked.text,
            checked.citations,
            warnings=(*checked.warnings, *silent),
            claims=checked.claims,
            counts=checked.counts,
            degraded=checked.degraded,
        )

    def _seen(self, request: AnswerRequest) -> tuple[Message, ...]:
        messages = self.prompt(request)
        if self._on_prompt is not None:
            self._on_prompt(messages, request.context.passages)
        return messages

    def prompt(self, request: AnswerRequest) -> tuple[Message, ...]:
        """What is sent to the model: instructions, earlier turns, then context and question."""
        extra = f"\n- {request.user_prompt}" if request.user_prompt else ""
        template = self._prompts.answer_system if request.grounded else self._prompts.answer_ungrounded
        ours = template.render(response_type=request.response_type, user_prompt=extra)
        system = ours if request.system_prompt is None else f"{request.system_prompt}{_form(request)}{extra}"
        return (Message("system", system), *_turns(request.history), Message("user", self._asked(request)))

    def _asked(self, request: AnswerRequest) -> str:
        if not request.grounded:
            return request.question
        context = request.context.text
        # Nobody can write the closing tag into a document beforehand: its name depends on the question and on all passages.
        tag = digest(f"{request.question}\n{context}")[:8]
        return self._prompts.answer_question.render(
            tag=tag, context=context, refusal=refusal(request.question), question=request.question
        )


def _uncited(text: str) -> str:
    """A refusal without its citations: that something is missing stands in no passage."""
    pieces, position = [], 0
    for marker in markers_in(text):
        pieces.append(text[position : marker.start].rstrip(" \t"))
        position = marker.end
    return "".join([*pieces, text[position:]]).strip()


def _form(request: AnswerRequest) -> str:
    """The form asked for, where the caller's own instructions stand instead of ours and a form was named beside them."""
    return "" if request.response_type == DEFAULT_FORM else f"\n- Form of the answer: {request.response_type}"


def _has_nothing(request: AnswerRequest) -> bool:
    return request.grounded and not request.context.text.strip()


def _turns(history: Sequence[Mapping[str, str]]) -> list[Message]:
    """The earlier turns of user and model; a system turn of the caller's would replace our instructions and is left out."""
    turns: list[Message] = []
    for turn in history:
        match turn.get("role"):
            case "user" | "assistant" as role:
                turns.append(Message(role, turn.get("content", "")))
    return turns
