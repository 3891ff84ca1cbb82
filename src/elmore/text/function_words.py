"""Words that say little about what a sentence is about: articles, pronouns, prepositions and the
like, in English and Chinese. In other languages only numbers and punctuation are told apart.
"""

_ENGLISH = """
a about above across after again against ah alas all almost along already also although always am
among amongst an and another any anybody anyone anything are aren't around as at away aye back be
became because become been before behind being below beneath beside besides between beyond both but
by came can can't cannot come could couldn't did didn't do does doesn't doing don't done down during
each eh eight either else enough ere even ever every everybody everyone everything few first five
for four from get gets getting go goes going gone got ha had hadn't has hasn't have haven't having
he he'd he'll he's her here hers herself hey him himself his ho how however i i'd i'll i'm i've
if in indeed instead into is isn't it it's its itself just last least less let let's like made make
makes many may maybe me might mine more most much must mustn't my myself nay near neither never next
nine no nobody none nor not nothing now o of off often oh on once one only onto or other others
ought our ours ourselves out over own perhaps put quite rather really said same say says see seem
seemed seems seen seven shall shan't she she'd she'll she's should shouldn't since six so some
somebody someone something sometimes soon still such take ten than that that's the thee their theirs
them themselves then there there's therefore these they they'd they'll they're they've thine thing
things this those thou though three through thus thy till to today together tomorrow too took toward
towards two under until unto up upon us used very was wasn't way we we'd we'll we're we've well went
were weren't what what's whatever when where whether which while whilst who who's whoever whole whom
whose why will with within without won't would wouldn't ye yes yesterday yet you you'd you'll you're
you've your yours yourself yourselves n't 's 're 've 'd 'll 'm ca wo
"""
_CHINESE = """
的 了 是 在 我 你 您 他 她 它 我们 你们 他们 她们 它们 这 那 这个 那个 这些 那些 这里 那里 这样
那样 哪 哪里 谁 什么 怎么 怎样 为什么 多少 几 和 与 及 或 或者 并 并且 而 而且 但 但是 可是
不过 因为 所以 因此 如果 虽然 就 都 也 还 又 再 才 只 很 太 更 最 非常 十分 不 没 没有 别 未 被
把 将 给 让 使 向 往 从 到 对 对于 关于 为 为了 以 于 由 由于 按 按照 根据 跟 同 比 等 等等 上
下 里 中 外 前 后 之 其 其中 有 会 能 能够 可以 可能 应 应该 要 想 着 过 得 地 个 一 一个 一些
一种 二 三 两 第一 年 月 日 时 时候 已 已经 正在 曾 曾经 吗 呢 吧 啊 呀 嘛 哦 嗯 每 各 某 该 此
自己 大家 说 来 去
"""
FUNCTION_WORDS = frozenset(_ENGLISH.split()) | frozenset(_CHINESE.split())


def is_content(word: str) -> bool:
    """Whether a word can tell what a text is about."""
    if not word or not (word[0].isalnum() and word[-1].isalnum()):
        return False  # punctuation, or a word that was not split from it
    plain = word.lower().replace("\u2019", "'")
    return plain not in FUNCTION_WORDS and any(character.isalpha() for character in word)
