"""The German texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worker.texts.english import Texts


class GermanTexts(Texts):
    """Deutsch."""

    language = "de"

    def names(self, names: Iterable[str]) -> str:
        return self.separator.join(names) or "keine"

    def unknown_tool(self, name: str, available: Iterable[str]) -> str:
        return f"kein Tool {name}. Vorhandene Tools: {self.names(available)}."

    def not_json(self, reason: str, position: int, excerpt: str) -> str:
        return (
            f"Fehler: Die Argumente sind kein gültiges JSON: {reason} bei Zeichen {position}, "
            f"nahe {excerpt}. Sende den Aufruf noch einmal, mit einem JSON-Objekt als Argumenten."
        )

    def not_object(self, kind: str) -> str:
        return (
            "Fehler: Die Argumente müssen ein JSON-Objekt sein, gesendet wurde ein Wert vom Typ "
            f"{kind}. Sende den Aufruf noch einmal, mit einem Objekt, das jedes Argument benennt."
        )

    def cut_call(self) -> str:
        return (
            "Fehler: Dieser Aufruf wurde vom Längenlimit abgeschnitten und nicht ausgeführt. "
            "Sende ihn mit kürzeren Argumenten, oder verteile die Arbeit auf mehrere Aufrufe."
        )

    def bad_arguments(self, tool: str, problems: Sequence[str]) -> str:
        listed = "\n".join(f"- {problem}" for problem in problems)
        return (
            f"Fehler: falsche Argumente für {tool}:\n{listed}\n"
            "Nichts wurde ausgeführt. Berichtige sie und sende den Aufruf noch einmal."
        )

    def missing_argument(self, name: str) -> str:
        return f"{name}: erforderlich, fehlt aber"

    def unknown_argument(self, name: str, allowed: Iterable[str]) -> str:
        return f"{name}: dieses Argument gibt es nicht. Argumente: {self.names(allowed)}"

    def bad_value(self, name: str, reason: str, shown: str) -> str:
        return f"{name}: {reason} (erhalten: {shown})"

    def more_problems(self, count: int) -> str:
        return f"und {count} weitere"

    def too_many_calls(self, tool: str, limit: int) -> str:
        return (
            f"Fehler: {tool} darf je Aufgabe höchstens {limit}-mal aufgerufen werden, das ist "
            "aufgebraucht. Mach ohne dieses Tool weiter."
        )

    def tool_error(self, kind: str, text: str) -> str:
        what = f"Fehler: {kind}: {text}" if text else f"Fehler: {kind}"
        return f"{what}\nBerichtige die Argumente, oder wähle einen anderen Weg."

    def tool_retry(self, text: str) -> str:
        return f"Fehler: {text}\nRufe das Tool entsprechend noch einmal auf."

    def tool_failed(self, text: str) -> str:
        return f"Fehler: {text}\nEin weiterer Aufruf hilft nicht; wähle einen anderen Weg."

    def timeout(self, seconds: float) -> str:
        return (
            f"Fehler: kein Ergebnis in {seconds:g} Sekunden. Das Tool kann seine Arbeit ganz oder "
            "teilweise getan haben: Prüfe das vor einem neuen Aufruf, oder verlange weniger."
        )

    def died(self, how: str) -> str:
        return (
            f"Fehler: Der Prozess des Tools endete ohne Ergebnis ({how}). Es kann seine Arbeit "
            "teilweise getan haben: Prüfe das vor einem neuen Aufruf, oder verlange weniger."
        )

    def overloaded(self, count: int) -> str:
        return (
            f"Fehler: {count} frühere Aufrufe, deren Zeit abgelaufen ist, laufen noch; dieser "
            "wurde nicht begonnen. Mach ohne das Tool weiter, oder rufe es später auf."
        )

    def no_result(self) -> str:
        return "(erledigt, kein Ergebnis)"

    def empty_text(self) -> str:
        return "(leerer Text)"

    def empty_collection(self, written: str) -> str:
        return f"{written} (leer)"

    def unwritable(self, kind: str) -> str:
        return (
            f"Fehler: Das Tool lief, gab aber {kind} zurück, was sich nicht als Text schreiben "
            "lässt. Rufe es dafür nicht noch einmal auf; wähle einen anderen Weg."
        )

    def truncated(self, total: int) -> str:
        return f"... (Inhalt zu lang, gekürzt, insgesamt {total} Zeichen)"

    def skipped_after_answer(self) -> str:
        return "(nicht ausgeführt: ein früherer Aufruf dieser Antwort hat die Aufgabe beendet)"

    def rejected(self, note: str) -> str:
        reason = f" Grund: {note}" if note else ""
        return (
            f"Fehler: Ein Mensch hat diesen Aufruf abgelehnt; er wurde nicht ausgeführt.{reason} "
            "Wähle einen anderen Weg."
        )

    def ran_with_changes(self, arguments: str, result: str) -> str:
        return f"Ein Mensch hat die Argumente geändert: {arguments}. Ergebnis:\n{result}"

    def human_answer(self, text: str) -> str:
        return f"Antwort eines Menschen: {text}"

    def outcome_unknown(self, note: str) -> str:
        known = f" Bekannt ist: {note}" if note else ""
        return f"Fehler: Der Aufruf wurde unterbrochen, sein Ausgang ist unbekannt.{known}"

    def outcome_reported(self, note: str) -> str:
        return f"Der Aufruf wurde unterbrochen. Ein Mensch hat den Ausgang geprüft: {note}"

    def same_action(self, times: int) -> str:
        return (
            f"Fehler: derselbe Aufruf mit demselben Ergebnis zum {times}. Mal. "
            "Tu etwas anderes, oder gib deine Antwort."
        )

    def accepted(self) -> str:
        return "(angenommen: die Aufgabe ist erledigt)"

    def terminate_too_early(self) -> str:
        return (
            "Fehler: noch nicht angenommen, denn ein anderer Aufruf dieser Antwort ist noch "
            "offen. Lies erst seine Antwort und gib dann das Endergebnis."
        )

    def answer_cut(self) -> str:
        return "Deine Antwort wurde am Längenlimit abgeschnitten. Gib sie noch einmal, kürzer."

    def text_call(self) -> str:
        return (
            "Deine Antwort enthält einen Tool-Aufruf als Text; so wird er nicht ausgeführt. "
            "Rufe das Tool über die Tool-Schnittstelle auf, oder antworte ohne es."
        )

    def empty_reply(self) -> str:
        return "Deine Antwort war leer. Rufe ein Tool auf, oder gib deine Antwort."

    def answer_by_tool(self, tool: str) -> str:
        return f"Das ist noch keine Antwort: Rufe {tool} mit dem Endergebnis auf."

    def long_history(self, dropped: int) -> str:
        return f"({dropped} frühere Nachrichten werden hier nicht gezeigt.)"

    def summarise(self) -> str:
        return (
            "Fasse die folgenden Schritte der Arbeit eines Agenten für ihn selbst zusammen: was "
            "gefragt war, was gefunden wurde (Namen, Zahlen, Quellen), was getan wurde und was "
            "noch offen ist. Schreib nur die Zusammenfassung."
        )

    def summary(self, text: str) -> str:
        return f"Zusammenfassung der früheren Schritte:\n{text}"

    def delegated_task(self) -> str:
        return "Die vollständige Aufgabe mit allem, was dafür nötig ist."

    def sub_job_failed(self, text: str) -> str:
        return f"Fehler: Der andere Agent endete ohne Antwort: {text}. Geh einen anderen Weg."

    def terminate(self, kind: str) -> str:
        return f"Gibt das Endergebnis ({kind}) an und beendet die Aufgabe."

    def terminate_result(self) -> str:
        return "Das Endergebnis."

    def hand_to_human(self) -> str:
        return "Übergibt das Gespräch an einen Kollegen, mit dem Grund."

    def hand_to_human_reason(self) -> str:
        return "Warum ein Mensch gebraucht wird und was zu entscheiden ist."
