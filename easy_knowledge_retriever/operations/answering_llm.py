"""Answers written by a language model from the passages, with citations that are checked."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.operations.answering import refusal
from easy_knowledge_retriever.operations.base import Answer, Answerer, AnswerRequest
from easy_knowledge_retriever.operations.citation_check import check_citations
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.text.hashing import digest

__all__ = ["LLMAnswerer"]

_PROMPTS = PromptSet()


class LLMAnswerer(Answerer):
    """Has a language model answer from the context, and checks what it cites.

    Args:
        model: The language model, with its wrappers around it.
        prompts: The prompts.
    """

    def __init__(self, model: LLMService, prompts: PromptSet = _PROMPTS) -> None:
        self._model = model
        self._prompts = prompts

    async def answer(self, request: AnswerRequest) -> Answer:
        """The whole answer. Where there is no context, the refusal, without asking the model.

        Raises:
            UpstreamError: The model failed.
        """
        if _has_nothing(request):
            return Answer(refusal(request.question), refused=True)
        completion = await (request.model or self._model).complete(self.prompt(request))
        answer = await self.finish(request, completion.text)
        return replace(answer, usage=completion.usage + answer.usage)

    async def stream(self, request: AnswerRequest) -> AsyncIterator[str]:
        """The answer in pieces.

        Raises:
            UpstreamError: The model failed, perhaps after some pieces.
        """
        if _has_nothing(request):
            yield refusal(request.question)
            return
        async for piece in (request.model or self._model).stream(self.prompt(request)):
            yield piece

    async def finish(self, request: AnswerRequest, text: str) -> Answer:
        """The answer a text amounts to: citations of passages that were not given taken out, the others checked."""
        text = text.strip()
        if not request.grounded:
            return Answer(text)
        # The passages were escaped, so a sentence that was copied from them still is.
        checked = check_citations(html.unescape(text), request.context.passages)
        refused = not checked.citations and refusal(request.question) in checked.text
        warnings = []
        if checked.unknown:
            warnings.append(f"{checked.unknown} citations of passages that were not given were removed")
        if checked.unsupported:
            warnings.append(f"{checked.unsupported} citations are not supported by their passage")
        if not checked.citations and not refused:
            warnings.append("the answer cites nothing")
        return Answer(checked.text, checked.citations, refused=refused, warnings=tuple(warnings))

    def prompt(self, request: AnswerRequest) -> tuple[Message, ...]:
        """What is sent to the model: instructions, earlier turns, then context and question."""
        extra = f"\n- {request.user_prompt}" if request.user_prompt else ""
        template = self._prompts.answer_system if request.grounded else self._prompts.answer_ungrounded
        ours = template.render(response_type=request.response_type, user_prompt=extra)
        system = ours if request.system_prompt is None else f"{request.system_prompt}{extra}"
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
