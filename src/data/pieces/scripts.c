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

/* Hiragana, Katakana and the mark U+30FC count as Han. Spaces and characters without a script belong to any script. */
#define MARK "\\x{30fc}"
#define ANY " \\p{sc:Unknown}"

zr_status zr__scripts_expression(char **expression)
{
    zr__text out = {0};
    for (const char *at = scripts; *at; at += strspn(at, " ")) {
        const int n = (int)strcspn(at, " ");
        const bool han = strncmp(at, "Han ", 4) == 0;
        const char *more = han ? "\\p{sc:Hiragana}\\p{sc:Katakana}" MARK : "";
        const char *less = han ? "(?! )" : "(?![ " MARK "])", *not_mark = han ? "" : "(?!" MARK ")";
        zr__text_add(&out, "%s%s[\\p{sc:%.*s}%s](?:%s[\\p{sc:%.*s}%s" ANY "])*", out.length ? "|" : "", less, n, at,
                     more, not_mark, n, at, more);
        at += n;
    }
    return zr__text_take(&out, expression);
}
