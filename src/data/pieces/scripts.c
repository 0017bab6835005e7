#include "data/pieces/scripts.h"

#include "base/text/text.h"

#include <string.h>

/* The scripts of Unicode 9, frequent ones first. */
static const char scripts[] =
    "Common Latin Han Cyrillic Arabic Devanagari Hangul Greek Hebrew Thai Inherited Adlam Ahom "
    "Anatolian_Hieroglyphs Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo Brahmi "
    "Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Coptic Cuneiform "
    "Cypriot Deseret Duployan Egyptian_Hieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic Grantha Gujarati "
    "Gurmukhi Hanunoo Hatran Imperial_Aramaic Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada "
    "Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani "
    "Malayalam Mandaic Manichaean Marchen Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao "
    "Modi Mongolian Mro Multani Myanmar Nabataean New_Tai_Lue Newa Nko Ogham Ol_Chiki Old_Hungarian Old_Italic "
    "Old_North_Arabian Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osage Osmanya Pahawh_Hmong "
    "Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian "
    "Siddham SignWriting Sinhala Sora_Sompeng Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham "
    "Tai_Viet Takri Tamil Tangut Telugu Thaana Tibetan Tifinagh Tirhuta Ugaritic Vai Warang_Citi Yi";

/* Characters that are in Unicode 14, but not in Unicode 9, and unassigned characters between them. */
#define NEWER                                                                                                          \
    "\\x{560}\\x{588}\\x{5ef}\\x{61d}\\x{7fd}-\\x{7ff}\\x{860}-\\x{89f}\\x{8b5}\\x{8be}-\\x{8d3}\\x{9fc}-\\x{9fe}"     \
    "\\x{a76}\\x{afa}-\\x{aff}\\x{b55}\\x{c04}\\x{c3c}\\x{c5d}\\x{c77}\\x{c84}\\x{cdd}\\x{d00}\\x{d04}"                \
    "\\x{d3b}-\\x{d3c}\\x{d81}\\x{e86}\\x{e89}\\x{e8c}\\x{e8e}-\\x{e93}\\x{e98}\\x{ea0}\\x{ea8}-\\x{ea9}\\x{eac}"      \
    "\\x{eba}\\x{170d}\\x{1715}-\\x{171f}\\x{180f}\\x{1878}\\x{1abf}-\\x{1ace}\\x{1b4c}\\x{1b7d}-\\x{1b7e}"            \
    "\\x{1c90}-\\x{1cbf}\\x{1cf7}\\x{1cfa}\\x{1df6}-\\x{1dfa}\\x{20bf}-\\x{20c0}\\x{23ff}\\x{2b97}\\x{2bba}-\\x{2bbc}" \
    "\\x{2bc9}\\x{2bd2}-\\x{2beb}\\x{2bf0}-\\x{2bff}\\x{2c2f}\\x{2c5f}\\x{2e45}-\\x{2e5d}\\x{312e}-\\x{312f}"          \
    "\\x{31bb}-\\x{31bf}\\x{32ff}\\x{4db6}-\\x{4dbf}\\x{9fd6}-\\x{9fff}\\x{a7af}\\x{a7b8}-\\x{a7f6}\\x{a82c}"          \
    "\\x{a8fe}-\\x{a8ff}\\x{ab66}-\\x{ab6b}\\x{fbc2}\\x{fd40}-\\x{fd4f}\\x{fdcf}\\x{fdfe}-\\x{fdff}\\x{1019c}"         \
    "\\x{1032d}-\\x{1032f}\\x{10570}-\\x{105bc}\\x{10780}-\\x{107ba}\\x{10a34}-\\x{10a35}\\x{10a48}"                   \
    "\\x{10d00}-\\x{10d39}\\x{10e80}-\\x{10ff6}\\x{11070}-\\x{11075}\\x{110c2}-\\x{110cd}\\x{11144}-\\x{11147}"        \
    "\\x{111ce}-\\x{111cf}\\x{1133b}\\x{1145a}\\x{1145e}-\\x{11461}\\x{116b8}-\\x{116b9}\\x{1171a}"                    \
    "\\x{11740}-\\x{1183b}\\x{11900}-\\x{11abf}\\x{11d00}-\\x{11fff}\\x{12f90}-\\x{12ff2}\\x{13430}-\\x{13438}"        \
    "\\x{16a70}-\\x{16ac9}\\x{16e40}-\\x{16e9a}\\x{16f45}-\\x{16f4f}\\x{16f7f}-\\x{16f87}\\x{16fe1}-\\x{16ff1}"        \
    "\\x{187ed}-\\x{187f7}\\x{18af3}-\\x{1affe}\\x{1b002}-\\x{1b2fb}\\x{1cf00}-\\x{1cfc3}\\x{1d1e9}-\\x{1d1ea}"        \
    "\\x{1d2e0}-\\x{1d2f3}\\x{1d372}-\\x{1d378}\\x{1df00}-\\x{1df1e}\\x{1e100}-\\x{1e7fe}\\x{1e94b}"                   \
    "\\x{1ec71}-\\x{1ed3d}\\x{1f10d}-\\x{1f10f}\\x{1f12f}\\x{1f16c}-\\x{1f16f}\\x{1f1ad}\\x{1f260}-\\x{1f265}"         \
    "\\x{1f6d3}-\\x{1f6df}\\x{1f6f7}-\\x{1f6fc}\\x{1f7d5}-\\x{1f7f0}\\x{1f8b0}-\\x{1f90f}\\x{1f91f}"                   \
    "\\x{1f928}-\\x{1f92f}\\x{1f931}-\\x{1f932}\\x{1f93f}\\x{1f94c}-\\x{1f94f}\\x{1f95f}-\\x{1f97f}"                   \
    "\\x{1f992}-\\x{1f9bf}\\x{1f9c1}-\\x{1fbf9}\\x{2a6d7}-\\x{2a6df}\\x{2b735}-\\x{2b738}\\x{2ceb0}-\\x{2ebe0}"        \
    "\\x{30000}-\\x{3ffff}"

/* Hiragana, Katakana and the mark U+30FC count as Han. U+0589 and U+061C were common in Unicode 9. Spaces and
 * characters without a script belong to any script: they match group 1. */
#define MARK "\\x{30fc}"
#define STOP "\\x{589}\\x{61c}"
#define ANY "(?1)"

zr_status zr__scripts_expression(char **expression)
{
    zr__text out = {0};
    zr__text_add(&out, "%s", "(?(DEFINE)([ \\p{sc:Unknown}" NEWER "]))(?!" ANY ")(?:");
    for (const char *at = scripts; *at; at += strspn(at, " ")) {
        const int n = (int)strcspn(at, " ");
        const bool han = strncmp(at, "Han ", 4) == 0, first = at == scripts;
        const char *set = han ? "\\p{sc:Hiragana}\\p{sc:Katakana}" MARK : "", *less = han ? "" : "(?![" STOP "])";
        if (first) { /* Common */
            set = STOP;
            less = "(?!" MARK ")";
        }
        zr__text_add(&out, "%s(?:%s[\\p{sc:%.*s}%s])(?:" ANY "|%s[\\p{sc:%.*s}%s])*", first ? "" : "|", less, n, at,
                     set, less, n, at, set);
        at += n;
    }
    zr__text_add(&out, ")");
    return zr__text_take(&out, expression);
}
