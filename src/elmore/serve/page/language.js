// What the page says, in English and in Chinese: one table, a string or a function a line.

const ENGLISH = {
  code: "en",
  other: "中文",
  title: "elmore · explorer",
  tagline: "Every use of a word has a vector of its own. Type a sentence, choose a word, and see which uses are near.",
  sentence: "Sentence",
  placeholder: "Type a sentence and press Enter",
  show: "Show",
  examples: "For example:",
  words: "Words of the sentence",
  chooseWord: "Choose a word: click it, or go to it with the arrow keys and press Enter.",
  substitutes: "Words that would fit here",
  substitutesHint: "The most likely words in this place, by the other words of the sentence alone",
  layer: "Layer",
  mix: "mix",
  meaning: "meaning",
  mixWeights: "Weights of the mix",
  layerNumber: (n) => `layer ${n}`,
  layerHint: {
    0: "spelling only, no context",
    mix: "a weighted sum of the layers",
    meaning: "a map of the layers, learned so that a use predicts the words around it",
  },
  scope: "Look among",
  sameWord: (word) => `uses of “${word}”`,
  allWords: "all words",
  nearest: (word) => `Nearest uses of “${word}”`,
  nearestAny: (word) => `Nearest uses to “${word}”, any word`,
  static: (word) => `“${word}” without context`,
  staticHint: "One vector for the spelling: every sense in one list.",
  makeQuery: "Make it the query",
  compareThis: "Compare with the sentence above",
  map: (word, n) => `Map of ${n.toLocaleString("en")} ${n === 1 ? "use" : "uses"} of “${word}”`,
  mapHint: "Each mark is a use, its shape and colour a sense; rings are the nearest uses. Drag to move, Ctrl and wheel or pinch to zoom; arrow keys go from use to use, Enter chooses.",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  zoomReset: "Show all",
  sense: (n) => `sense ${n}`,
  senses: (n) => (n === 1 ? "One sense" : `${n} senses`),
  sensesHint: "By the words around them. Choose one to see it alone on the map.",
  uses: (n) => `${n.toLocaleString("en")} ${n === 1 ? "use" : "uses"}`,
  own: ({ sense, votes, of }) => `★ Your sentence: sense ${sense + 1}, as ${votes} of its ${of} nearest uses.`,
  ownMark: "Your sentence, among its nearest uses",
  sort: "Sort by",
  bySimilarity: "similarity",
  bySense: "sense",
  more: "More uses",
  compare: "Compare two sentences",
  compareHint: "The cosine of every word with every word, layer by layer.",
  second: "Second sentence",
  compareButton: "Compare",
  cosine: "cosine",
  heatFor: (layer) => `Word-to-word similarity, ${layer}`,
  pickCell: "Point at a square, or go to it with the arrow keys, to read its values.",
  link: "Copy link",
  copied: "Link copied",
  notIndexed: (word) => `“${word}” is not in the index.`,
  unreadable: (share) => `The model cannot read ${Math.round(100 * share)}% of these words. They all look alike to it, so their vectors mean nothing.`,
  noOther: (word) => `The index has no other use of “${word}”.`,
  tryAll: "Look among all words",
  noIndex: "This server has no index of uses, so there are no neighbours to show: start it with --index. Comparing two sentences works.",
  about: (info) => `${info.name} · ${info.n_layers} layers × ${info.dim}`,
  aboutIndex: (index) => `${index.n_uses.toLocaleString("en")} uses of ${index.n_words.toLocaleString("en")} words`,
  busy: (seconds) => `The server is busy. Trying again in ${seconds} s.`,
  stillBusy: "The server is busy at the moment. Please try again a little later.",
  gone: "The server does not answer. It may have stopped, or the connection is lost.",
  tooLarge: "The sentence is too long for this server.",
  refused: "The server did not accept this:",
  failed: "Something went wrong on the server.",
  keyRefused: "Without a key this server answers nothing.",
  again: "Try again",
  keyTitle: "This server asks for a key",
  keyText: "It was set by whoever started the server. It is kept until this tab is closed, and never put into links.",
  keyLabel: "Key",
  keyWrong: "That key was not accepted.",
  keyOk: "Use it",
  keyCancel: "Cancel",
};

const CHINESE = {
  code: "zh-CN",
  other: "English",
  title: "elmore · 词义浏览器",
  tagline: "一个词的每次使用都有自己的向量。输入一个句子，点一个词，看看哪些用法与它相近。",
  sentence: "句子",
  placeholder: "输入一个句子，按回车",
  show: "显示",
  examples: "例如：",
  words: "句中的词",
  chooseWord: "选一个词：点击它，或用方向键移到它上面再按回车。",
  substitutes: "此处可能的词",
  substitutesHint: "模型只看句中其他的词，列出此处最可能的词",
  layer: "层",
  mix: "混合",
  meaning: "词义",
  mixWeights: "混合权重",
  layerNumber: (n) => `第 ${n} 层`,
  layerHint: {
    0: "只看拼写，不看上下文",
    mix: "各层的加权和",
    meaning: "由各层线性映射而来，学到的是用法能预测它周围的词",
  },
  scope: "查找范围",
  sameWord: (word) => `“${word}”的用法`,
  allWords: "所有词",
  nearest: (word) => `“${word}”最相近的用法`,
  nearestAny: (word) => `与“${word}”最相近的用法（任意词）`,
  static: (word) => `脱离上下文的“${word}”`,
  staticHint: "一种拼写只有一个向量：所有词义混在一张表里。",
  makeQuery: "以此为查询",
  compareThis: "与上面的句子比较",
  map: (word, n) => `“${word}”的 ${n.toLocaleString("zh-CN")} 次使用`,
  mapHint: "每个记号是一次使用，形状和颜色表示词义；带圈的是最相近的用法。拖动可平移，Ctrl 加滚轮或双指可缩放；方向键在用法之间移动，回车选定。",
  zoomIn: "放大",
  zoomOut: "缩小",
  zoomReset: "显示全部",
  sense: (n) => `词义 ${n}`,
  senses: (n) => (n === 1 ? "只有一个词义" : `${n} 个词义`),
  sensesHint: "用周围的词来表示。点选一个，图上就只突出它。",
  uses: (n) => `${n.toLocaleString("zh-CN")} 次`,
  own: ({ sense, votes, of }) => `★ 您的句子：词义 ${sense + 1}，最相近的 ${of} 次使用中有 ${votes} 次如此。`,
  ownMark: "您的句子，位于最相近的用法之间",
  sort: "排序",
  bySimilarity: "相似度",
  bySense: "词义",
  more: "更多用法",
  compare: "比较两个句子",
  compareHint: "逐层显示每两个词的余弦相似度。",
  second: "第二个句子",
  compareButton: "比较",
  cosine: "余弦",
  heatFor: (layer) => `词与词的相似度，${layer}`,
  pickCell: "指向一个方格，或用方向键移到它上面，即可读数。",
  link: "复制链接",
  copied: "链接已复制",
  notIndexed: (word) => `索引里没有“${word}”。`,
  unreadable: (share) => `模型读不懂其中 ${Math.round(100 * share)}% 的词：这些词在它看来都一样，向量没有意义。`,
  noOther: (word) => `索引里没有“${word}”的其他用法。`,
  tryAll: "在所有词中查找",
  noIndex: "此服务器没有用法索引，无法显示相近用法：请用 --index 启动。比较两个句子仍可使用。",
  about: (info) => `${info.name} · ${info.n_layers} 层 × ${info.dim} 维`,
  aboutIndex: (index) => `${index.n_words.toLocaleString("zh-CN")} 个词的 ${index.n_uses.toLocaleString("zh-CN")} 次使用`,
  busy: (seconds) => `服务器正忙，${seconds} 秒后重试。`,
  stillBusy: "服务器现在很忙，请稍后再试。",
  gone: "服务器没有应答：它可能已停止，或连接已断开。",
  tooLarge: "对此服务器来说，句子太长了。",
  refused: "服务器没有接受：",
  failed: "服务器出错了。",
  keyRefused: "没有密钥，此服务器不作应答。",
  again: "重试",
  keyTitle: "此服务器需要密钥",
  keyText: "密钥由启动服务器的人设定。它只保留到此标签页关闭，绝不会写进链接。",
  keyLabel: "密钥",
  keyWrong: "密钥不正确。",
  keyOk: "使用",
  keyCancel: "取消",
};

const STORED = "elmore-language";

/** The reader's choice if one was made, else the browser's language. */
function chosen() {
  const code = localStorage.getItem(STORED) ?? navigator.language;
  return code.toLowerCase().startsWith("zh") ? CHINESE : ENGLISH;
}

export let say = chosen();

export function switchLanguage() {
  localStorage.setItem(STORED, (say === ENGLISH ? CHINESE : ENGLISH).code);
  say = chosen();
}

/** Fill the fixed parts of the page: data-say is the text, data-say-NAME an attribute. */
export function translatePage() {
  document.documentElement.lang = say.code;
  document.title = say.title;
  for (const node of document.querySelectorAll("[data-say]")) {
    node.textContent = say[node.dataset.say];
  }
  for (const name of ["placeholder", "aria-label", "title"]) {
    for (const node of document.querySelectorAll(`[data-say-${name}]`)) {
      node.setAttribute(name, say[node.getAttribute(`data-say-${name}`)]);
    }
  }
}
