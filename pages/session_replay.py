"""Session replay: one conversation, turn by turn, under our router and another."""

from __future__ import annotations

from html import escape

import streamlit as st

from carbonrouter_core.results.session_story import Story
from pages.parts.session_replay import conversations, decisions
from pages.shared import cache, page


def draw(shown: page.Page) -> None:
    """The whole page."""
    with page.busy("Replaying every conversation under both routers\N{HORIZONTAL ELLIPSIS}"):
        choice = conversations.pick(shown)
    if choice.session is None:
        page.problem("No conversation to replay", choice.problem)
        return
    if shown.present:
        row = choice.table.loc[choice.session]
        page.note(f"Conversation of {escape(conversations.describe(row))}.")
    stories = conversations.replay(shown, choice)
    if not shown.present:
        turn_tables(stories)
    run = choice.run
    as_logged = run.runs[choice.other].notes  # of a log that is replayed as it was served
    page.assumptions((*cache.notes(run, shown.router), *as_logged), run.prepared.warnings)


def turn_tables(stories: tuple[Story, Story]) -> None:
    """Every turn as a table, to read or to download."""
    story = stories[0]
    title = "All turns"
    if len(story) < story.turns_in_all:
        title = f"Turns {conversations.in_words(range(story.first, story.first + len(story)))}"
    with st.expander(f"{title} as a table"):
        names = [decisions.policy_name(story.policy_id, story.prepared) for story in stories]
        tabs = st.tabs(names)
        for tab, story in zip(tabs, stories, strict=True):
            tab.dataframe(story.turn_table(), hide_index=True, key=f"turns-{story.policy_id}")


shown = page.start("Session replay")
page.draw(shown, draw)
