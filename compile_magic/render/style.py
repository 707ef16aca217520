"""The one style sheet, and the inline styles that stay where a front end strips style sheets.

Colours come from the front end's own variables: JupyterLab's, then VS Code's, then Colab's. Every rule is
scoped by the class, so that two reports on a page and the page itself don't meet.
"""

from __future__ import annotations

NAME = "compile-magic"

_DARK = "--cm-bad:#ff8a80;--cm-warn:#ffcc80;--cm-good:#81c995;--cm-dim:#a0a0a0"

SHEET = f"""
.{NAME}{{
--cm-fg:var(--jp-content-font-color1,var(--vscode-editor-foreground,var(--colab-primary-text-color,inherit)));
--cm-dim:var(--jp-content-font-color2,var(--vscode-descriptionForeground,var(--colab-secondary-text-color,#737373)));
--cm-line:var(--jp-border-color2,var(--vscode-widget-border,var(--colab-border-color,#8885)));
--cm-bad:var(--jp-error-color1,var(--vscode-errorForeground,#c62828));
--cm-warn:var(--jp-warn-color0,var(--vscode-editorWarning-foreground,#a35c00));
--cm-good:var(--jp-success-color0,var(--vscode-testing-iconPassed,#1b7f3b));
--cm-mono:var(--jp-code-font-family,var(--vscode-editor-font-family,ui-monospace,monospace));
color:var(--cm-fg)}}
html[theme=dark] .{NAME},html[data-theme=dark] .{NAME}{{{_DARK}}}
.{NAME} .bad{{color:var(--cm-bad)!important}}
.{NAME} .warn{{color:var(--cm-warn)!important}}
.{NAME} .good{{color:var(--cm-good)!important}}
.{NAME} .dim,.{NAME} th{{color:var(--cm-dim)!important}}
.{NAME} p,.{NAME} div{{overflow-wrap:anywhere}}
.{NAME} tr{{border-top-color:var(--cm-line)!important}}
.{NAME} td,.{NAME} th{{background:none;max-width:none;vertical-align:top!important;
white-space:normal;overflow-wrap:anywhere}}
.{NAME} td.num,.{NAME} th{{overflow-wrap:normal;white-space:nowrap}}
.{NAME} code,.{NAME} pre{{font-family:var(--cm-mono)!important;color:inherit;background:none;padding:0;font-size:12px}}
.{NAME} td code{{overflow-wrap:anywhere}}
.{NAME} td.num code{{white-space:nowrap!important;overflow-wrap:normal}}
.{NAME} a{{color:inherit;text-decoration:underline}}
.{NAME} tbody tr,.{NAME} tbody tr:hover{{background:none}}
.{NAME} tbody tr.hit{{background:rgba(216,67,67,.13)!important}}
.{NAME} details td,.{NAME} details th{{padding:1px 12px 1px 0;vertical-align:top}}
.{NAME} summary{{cursor:pointer}}
.{NAME} meter{{background:none;border:none}}
.{NAME} meter::-webkit-meter-bar{{background:rgba(128,128,128,.22);border:none;border-radius:2px;height:9px}}
.{NAME} meter::-webkit-meter-optimum-value{{background:#5b8dd9;border-radius:2px}}
.{NAME} meter::-moz-meter-bar{{background:#5b8dd9!important}}
"""

PAGE_SHEET = f"""
html{{color-scheme:light dark;background:Canvas;color:CanvasText}}
body{{font:14px/1.45 system-ui,sans-serif;max-width:1100px;margin:1.5em auto;padding:0 1em}}
@media (prefers-color-scheme:dark){{.{NAME}{{{_DARK}}}}}
"""

# Mid-tones, readable on white and on black: they show only where the style sheet is gone.
TONES = {"bad": "color:#d84343", "warn": "color:#b26a00", "good": "color:#2e9e5b", "dim": "color:#808080"}
# The parts of a bar, in their order; their characters differ too.
PARTS = ("#4f86d6", "#c9801a", "#2e9e5b", "#9a6fd0", "#808080")
EDGES = {"bad": "#d84343", "warn": "#d08a1d", "good": "#2e9e5b"}

TABLE = "border-collapse:collapse;table-layout:auto;margin:2px 0 10px 0;font-size:13px;line-height:1.4"
ROW = "border-top:1px solid rgba(128,128,128,.3)"
CELL = "text-align:{align};vertical-align:top;padding:2px 12px 2px 0"
BELOW = "text-align:left;vertical-align:top;padding:0 12px 4px 16px"
METER = "width:70px"
SLIM = "text-align:left"
SOURCE = "text-align:{align};padding:0 8px 0 0;border:none"
CODE = "white-space:pre-wrap"
UNBROKEN = "white-space:pre"
PRE = "white-space:pre-wrap;overflow-x:auto;margin:2px 0 8px 12px;font-size:12px;line-height:1.35"
TITLE = "margin:10px 0 2px 0;font-weight:600"
LINE = "margin:2px 0"
DETAILS = "margin:2px 0"
