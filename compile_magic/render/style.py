"""The one style sheet, and the inline styles that stay where a front end strips style sheets.

Text has the front end's own colour: JupyterLab's, VS Code's or Colab's. The tones have two sets, for light and for
dark, since those of the front ends are too pale on a tinted line. Every rule is scoped by the class, so that two
reports on a page and the page itself don't meet, and overrules the front end's own rules for tables and code.
"""

from __future__ import annotations

NAME = "compile-magic"

_DARK = "--cm-bad:#ff8a80;--cm-warn:#ffcc80;--cm-good:#81c995;--cm-dim:#b0b0b0"
# How Colab, documentation sites, JupyterLab with nbconvert, and VS Code say that they are dark.
_DARK_PAGES = (
    "html[theme=dark]",
    "html[data-theme=dark]",
    "body[data-jp-theme-light=false]",
    "body.vscode-dark",
    "body.vscode-high-contrast:not(.vscode-high-contrast-light)",
)
_DARK_ROOTS = ",".join(f"{page} .{NAME}" for page in _DARK_PAGES)

SHEET = f"""
.{NAME}{{
--cm-fg:var(--jp-content-font-color1,var(--vscode-editor-foreground,var(--colab-primary-text-color,inherit)));
--cm-line:var(--jp-border-color2,var(--vscode-widget-border,var(--colab-border-color,#8885)));
--cm-bad:#b3261e;--cm-warn:#8a4b00;--cm-good:#1a6b34;--cm-dim:#666;
--cm-mono:var(--jp-code-font-family,var(--vscode-editor-font-family,ui-monospace,monospace));
color:var(--cm-fg)}}
{_DARK_ROOTS}{{{_DARK}}}
.{NAME} .bad{{color:var(--cm-bad)!important}}
.{NAME} .warn{{color:var(--cm-warn)!important}}
.{NAME} .good{{color:var(--cm-good)!important}}
.{NAME} .dim,.{NAME} th{{color:var(--cm-dim)!important;opacity:1!important}}
.{NAME} p,.{NAME} div{{overflow-wrap:break-word}}
.{NAME} tr{{border-top-color:var(--cm-line)!important}}
.{NAME} td,.{NAME} th{{background:none;max-width:none;vertical-align:top!important;
white-space:normal;overflow-wrap:break-word}}
.{NAME} td.num,.{NAME} th{{overflow-wrap:normal}}
.{NAME} td.num{{white-space:nowrap}}
.{NAME} code,.{NAME} pre{{font-family:var(--cm-mono)!important;color:inherit;font-size:12px;
background:none!important;padding:0!important;word-break:normal!important;overflow-wrap:break-word!important}}
.{NAME} a{{color:inherit;text-decoration:underline}}
.{NAME} tbody tr:not(.hit),.{NAME} tbody tr:not(.hit):hover{{background:none!important}}
.{NAME} details td,.{NAME} details th{{padding:1px 12px 1px 0;vertical-align:top}}
.{NAME} summary{{cursor:pointer}}
.{NAME} meter{{background:none;border:none}}
.{NAME} meter::-webkit-meter-bar{{background:rgba(128,128,128,.22);border:none;border-radius:2px;height:9px}}
.{NAME} meter::-webkit-meter-optimum-value{{background:#5b8dd9;border-radius:2px}}
.{NAME} meter::-moz-meter-bar{{background:#5b8dd9!important}}
@media (max-width:560px){{.{NAME} table,.{NAME} td code{{font-size:11px!important}}
.{NAME} td,.{NAME} th{{padding-right:5px!important}}.{NAME} td code{{white-space:pre-wrap!important}}
.{NAME} td span{{white-space:normal!important}}.{NAME} meter{{width:32px!important}}}}
"""

PAGE_SHEET = f"""
html{{color-scheme:light dark;background:Canvas;color:CanvasText}}
body{{font:14px/1.45 system-ui,sans-serif;max-width:1100px;margin:1.5em auto;padding:0 1em}}
@media (prefers-color-scheme:dark){{.{NAME}{{{_DARK}}}}}
"""

# What is left where the style sheet is gone. No colour can be read on white and on black alike, so text has none.
TONES = {"bad": "", "warn": "", "good": "", "dim": "opacity:.75"}
# The parts of a bar, in their order; their characters differ too.
PARTS = ("#4f86d6", "#b87314", "#2e9e5b", "#9a6fd0", "#808080")
EDGES = {"bad": "#d84343", "warn": "#d08a1d", "good": "#2e9e5b"}

TABLE = "border-collapse:collapse;table-layout:auto;margin:2px 0 10px 0;font-size:13px;line-height:1.4"
ROW = "border-top:1px solid rgba(128,128,128,.3)"
CELL = "text-align:{align};vertical-align:top;padding:2px 10px 2px 0"
BELOW = "text-align:left;vertical-align:top;padding:0 12px 4px 16px"
METER = "width:70px"
SLIM = "text-align:left"
UNBROKEN_CELL = "white-space:nowrap"
SOURCE = "text-align:{align};padding:0 8px 0 0;border:none"
# Stripes of the front end would compete with the marked lines.
SOURCE_ROW = "background-color:rgba(0,0,0,0)"
HIT_ROW = "background-color:rgba(216,67,67,.13)"
_BARE = "padding:0;background-color:rgba(0,0,0,0)"
CODE = f"white-space:pre-wrap;{_BARE}"
UNBROKEN = f"white-space:pre;{_BARE}"
NAME_CODE = f"white-space:nowrap;{_BARE}"
PRE = (
    "white-space:pre-wrap;word-break:normal;overflow-wrap:break-word;"
    "margin:2px 0 8px 12px;font-size:12px;line-height:1.35"
)
TITLE = "margin:10px 0 2px 0;font-weight:600"
LINE = "margin:2px 0"
DETAILS = "margin:2px 0"
