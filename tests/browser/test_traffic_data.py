"""Page Traffic data in a real browser: bring a log, read the report, use it, delete it."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.fixtures import OpenTab

pytestmark = pytest.mark.browser

HEADER = "session,turn,new_prompt_tokens,output_tokens"
ODD_NAME = "=SUM(1) <b>x 日本.csv"
UPLOAD = "[data-testid=stFileUploader]"


def test_a_log_is_checked_confirmed_used_and_deleted(open_tab: OpenTab, tmp_path: Path) -> None:
    rows = "".join(f"s{i % 40},{i // 40},{100 + i % 900},{50 + i % 300}\n" for i in range(400))
    good, wrong = tmp_path / ODD_NAME, tmp_path / "wrong.csv"
    good.write_text(f"{HEADER}\n{rows}")
    wrong.write_text(f"{HEADER}\na,0,10,-5\n")
    tab = open_tab("traffic_data", UPLOAD)
    page = tab.page

    chooser = page.locator(f"{UPLOAD} input[type=file]")
    chooser.set_input_files(str(wrong))
    check = page.get_by_role("button", name="Check")
    check.click()
    expect(page.get_by_text("line 2: output_tokens must be").first).to_be_visible()
    expect(page.get_by_role("button", name="Store only")).to_be_disabled()
    tab.shot("traffic-data-refused")
    page.get_by_role("button", name="Discard").click()
    page.get_by_test_id("stFileChipDeleteBtn").get_by_role("button").first.click()
    expect(check).to_be_disabled()  # the app knows that the file is gone

    chooser.set_input_files(str(good))
    expect(check).to_be_enabled()
    check.click()
    expect(page.get_by_role("button", name="Store only")).to_be_enabled()
    tab.wait_until_done(UPLOAD)
    tab.shot("traffic-data-report")
    name = page.get_by_role("textbox", name="Name", exact=True)
    name.fill("my <i>log</i>")
    name.press("Enter")
    tab.wait_until_done(UPLOAD)
    page.get_by_role("button", name="Store and use in the scenario").click()
    page.get_by_role("button", name="Delete", exact=True).first.wait_for()  # it is stored
    tab.wait_until_done(UPLOAD)
    expect(page.get_by_role("button", name="Use in the scenario", exact=True)).to_be_disabled()
    assert "my <i>log</i>" in page.locator("body").inner_text()
    tab.shot("traffic-data-stored")

    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Yes, delete it").click()
    expect(page.get_by_role("button", name="Delete", exact=True)).to_have_count(0)
    tab.shot("traffic-data-deleted")
    # the scenario that used it has gone back to the built-in chats
    expect(page.get_by_text("exactly as preset")).to_be_visible()
    assert tab.foreign_requests() == []


def test_a_long_import_shows_how_far_it_is_and_can_be_stopped(
    open_tab: OpenTab, tmp_path: Path
) -> None:
    # block hashes that are no numbers are read record by record: far longer than it takes to stop
    parts = {"sys_prompt": [f"{i:x}" for i in range(200)], "user_input": ["a"]}
    records = "".join(
        json.dumps(
            {
                "timestamp": str(i),
                "input_length": 3000,
                "output_length": 9,
                "hash_ids": parts,
                "session_id": f"s{i}",
            }
        )
        + "\n"
        for i in range(2000)
    )
    long = tmp_path / "long.jsonl.gz"
    long.write_bytes(gzip.compress(records.encode()) * 200)  # 320 MB once it is unpacked
    tab = open_tab("traffic_data", UPLOAD)
    page = tab.page
    page.locator(f"{UPLOAD} input[type=file]").set_input_files(str(long))
    check = page.get_by_role("button", name="Check")
    expect(check).to_be_enabled()
    check.click()
    bar = page.get_by_test_id("stProgress")
    expect(bar).to_contain_text(re.compile("Reading and checking: [1-9]"))
    seen = bar.inner_text()
    expect(bar).not_to_have_text(seen)  # it goes on
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped; nothing was stored.")).to_be_visible()
    expect(bar).to_have_count(0)
    expect(page.get_by_role("button", name="Delete", exact=True)).to_have_count(0)
    expect(check).to_be_enabled()  # and the page can be used
    assert tab.errors == []
