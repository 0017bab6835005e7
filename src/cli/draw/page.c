#include "cli/draw/page.h"

#include "base/text/text.h"
#include "cli/draw/svg.h"

#include <math.h>

#define ON_PAGE ":not(.picture)>svg "
/* CSS of the page. In dark mode it replaces the light-mode colours of the SVG pictures; a .picture of many colours is
 * inverted as a whole. */
static const char style[] =
    ":root{--ground:#fff;--text:#1f2933;--soft:#52606d;--line:#e4e8ed;--card:#f7f9fb;--bar:#0072b2;--mark:#d55e00;"
    "--yes:#d3ecd9;--no:#f6ddd6}\n"
    "*{box-sizing:border-box}body{margin:0 auto;padding:16px 12px 40px;max-width:1400px;background:var(--ground);"
    "color:var(--text);font:15px/1.45 \"DejaVu Sans\",Verdana,Helvetica,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.45em;margin:0 0 4px}h2{font-size:1.2em;margin:34px 0 8px;padding-top:10px;"
    "border-top:1px solid var(--line)}h3{font-size:1em;margin:18px 0 6px}p{margin:4px 0}.soft{color:var(--soft)}\n"
    ".panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:14px;margin:14px 0}\n"
    "figure{margin:0;padding:8px 6px 4px;background:var(--card);border-radius:6px;min-width:0}"
    "figcaption{padding:0 6px 4px}figcaption b{margin-right:8px}svg{display:block;width:100%;height:auto}\n"
    ".key{display:inline-flex;align-items:center;margin-right:16px}.key svg{width:26px;height:14px;margin-right:6px;"
    "flex:none}.note{border-left:4px solid var(--mark);padding:2px 10px;margin:6px 0;background:var(--card)}\n"
    ".wide{overflow-x:auto;max-width:100%}table{border-collapse:collapse;font-size:.93em}"
    "th,td{text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid var(--line);vertical-align:top;"
    "overflow-wrap:break-word;min-width:5.5em}td "
    "data{white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap}tr.total td{font-weight:700}"
    ".facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,170px),1fr));gap:4px 20px;margin:8px 0}"
    ".facts div{border-bottom:1px solid var(--line);padding:3px 0}.facts span{display:block;color:var(--soft);"
    "font-size:.87em}\n"
    ".bar{position:relative;width:min(24vw,220px);height:12px;margin-top:5px;background:var(--line)}"
    ".bar i{position:absolute;left:0;top:0;bottom:0;background:var(--bar)}"
    ".bar b{position:absolute;top:-3px;bottom:-3px;width:3px;margin-left:-3px;background:var(--mark)}\n"
    ".sides{display:flex;flex-wrap:wrap;gap:0 50px}.sides>div{min-width:0;max-width:100%}"
    "summary{cursor:pointer;padding:4px 0}pre{overflow-x:auto;background:var(--card);padding:10px;font-size:.87em}"
    ".sample{white-space:pre-wrap;margin:2px 0 8px;max-width:80em}\n"
    ".panels svg>rect{fill:none}.yes{background:var(--yes)}.no{background:var(--no);color:var(--soft)}"
    ".this{outline:3px solid var(--text);outline-offset:-3px}.grid td,.grid th{padding:4px 10px;min-width:7em}"
    ".answer{font-size:1.15em;padding:8px 12px;margin:12px 0;border-left:6px solid var(--bar)}"
    ".picture{background:#fff;padding:6px;border-radius:6px}.wide.picture svg{min-width:900px}.bars{max-width:640px}\n"
    "@media(prefers-color-scheme:dark){:root{--ground:#14181d;--text:#e6e9ed;--soft:#a7b1bc;--line:#333b45;"
    "--card:#1c222a;--bar:#56b4e9;--yes:#1d4a2c;--no:#4d2a22}.picture{filter:invert(.91) hue-rotate(180deg)}" ON_PAGE
    "text{fill:#d5dae0}" ON_PAGE "[stroke=\"#e4e8ed\"]{stroke:#333b45}" ON_PAGE
    "[stroke=\"#52606d\"]{stroke:#8b96a3}" ON_PAGE "[stroke=\"#000000\"]{stroke:#fff}" ON_PAGE
    "[fill=\"#000000\"]{fill:#fff}" ON_PAGE "[stroke=\"#0072b2\"]{stroke:#3fa0dd}" ON_PAGE
    "[fill=\"#0072b2\"]{fill:#3fa0dd}" ON_PAGE "[stroke=\"#b3261e\"]{stroke:#ff8a80}}\n";

void page_begin(FILE *out, const char *head, const char *title)
{
    fputs(head, out);
    fputs("<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n",
          out);
    page_escaped(out, "<title>zr: ", title, "</title>\n");
    fprintf(out, "<style>\n%s</style>\n</head>\n<body>\n", style);
    page_escaped(out, "<h1>", title, "</h1>\n");
}

void page_end(FILE *out, const char *from)
{
    fprintf(out, "<p class=\"soft\">Written by zr %s from %s.</p>\n</body>\n</html>\n", zr_version(), from);
}

void page_escaped(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    svg_escaped(out, text);
    fputs(after, out);
}

void page_data(FILE *out, const char *key, double value, const char *words)
{
    fprintf(out, "<data data-key=\"%s\" value=\"%s\">", key, ZR_SHORTEST(value));
    page_escaped(out, "", words, "</data>");
}

void page_fact(FILE *out, const cli_fact *fact)
{
    if (!fact->text[0])
        fputs("-", out);
    else if (isfinite(fact->value))
        page_data(out, fact->key, fact->value, fact->text);
    else
        svg_escaped(out, fact->text);
}

void page_facts(FILE *out, const cli_fact *fact, int n)
{
    fputs("<div class=\"facts\">\n", out);
    for (int i = 0; i < n; i++) {
        if (!fact[i].text[0]) continue;
        fprintf(out, "<div><span>%s</span>", fact[i].label);
        page_fact(out, &fact[i]);
        fputs("</div>\n", out);
    }
    fputs("</div>\n", out);
}

void page_bar(FILE *out, double share, double mark)
{
    fprintf(out, "<div class=\"bar\"><i style=\"width:%.2f%%\"></i>", 100 * share);
    if (isfinite(mark)) fprintf(out, "<b style=\"left:%.2f%%\"></b>", 100 * mark);
    fputs("</div>", out);
}
