// What a reader sees of a report: its words, its rows, and what is wrong with the look of them.
(root) => {
  const LEAST_CONTRAST = 4.5;
  const LEAST_CONTRAST_OF_A_BAR = 3;
  const LEAST_FONT = 11;
  const LONGEST_WORD = 15;  // of those that may not be broken over two lines
  const LONGEST_NAME = 40;  // of what fills no line by itself
  // A frame with outputs is transparent in VS Code.
  const GROUND = getComputedStyle(document.documentElement).getPropertyValue("--vscode-editor-background") || "#fff";
  const paint = Object.assign(document.createElement("canvas"), {width: 1, height: 1})
    .getContext("2d", {willReadFrequently: true});

  const upward = (element) => element ? [element, ...upward(element.parentElement)] : [];
  const seen = (element) => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});

  // The browser itself mixes the colours: whatever they are written as, a pixel has three numbers.
  function painted(color, opacity = 1) {
    paint.globalAlpha = opacity;
    paint.fillStyle = color;
    paint.fillRect(0, 0, 1, 1);
    return luminance(paint.getImageData(0, 0, 1, 1).data);
  }

  function luminance([red, green, blue]) {
    const linear = (part) => part <= 0.04045 * 255 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4;
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  }

  function contrast(element) {
    const around = upward(element).reverse().map((one) => getComputedStyle(one));
    let back = painted(GROUND);
    for (const style of around) back = painted(style.backgroundColor);
    const opacity = around.reduce((all, style) => all * style.opacity, 1);
    const front = painted(getComputedStyle(element).color, opacity);
    return (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
  }

  function clipped(element, box) {
    if (box.left < -1 || box.right > window.innerWidth + 1) return true;
    return upward(element).some((one) => {
      if (getComputedStyle(one).overflowX === "visible" || one === document.documentElement) return false;
      const left = one.getBoundingClientRect().left + one.clientLeft;
      return one.clientWidth && (box.left < left - 1 || box.right > left + one.clientWidth + 1);
    });
  }

  function boxes(node, from, to) {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return [...range.getClientRects()].filter((box) => box.width > 0);
  }

  function tops(found) {
    return new Set(found.map((box) => Math.round(box.top))).size;
  }

  // Letters and figures; where code has a dot or a bracket it may go on in the next line. What fills a line by itself may
  // be broken anywhere, and so may what torch wrote where it is one of several columns.
  function broken(node) {
    if (node.parentElement.closest("details td code")) return [];
    const long = [...node.data.matchAll(/\S+/g)].filter(([word]) => word.length > LONGEST_NAME);
    const within = (at) => long.some((word) => word.index <= at && at < word.index + word[0].length);
    return [...node.data.matchAll(/[\p{L}\p{N}]+/gu)]
      .filter((word) => word[0].length <= LONGEST_WORD && !within(word.index))
      .filter((word) => tops(boxes(node, word.index, word.index + word[0].length)) > 1)
      .map(([word]) => word);
  }

  function complaints(node) {
    const element = node.parentElement;
    // Not the spaces, which a line break leaves hanging beyond the edge.
    const found = [...node.data.matchAll(/\S+/g)].flatMap((word) => boxes(node, word.index, word.index + word[0].length));
    const ratio = contrast(element);
    const size = parseFloat(getComputedStyle(element).fontSize);
    const wrong = [];
    if (!found.length) wrong.push("takes no room");
    if (found.some((box) => clipped(element, box))) wrong.push("clipped");
    const bar = /^[\s\u2580-\u259f]+$/.test(node.data);  // drawn with block characters, and not read
    const figure = element.closest("td[align=right]") && !element.closest("details");
    if (figure && tops(found) > 1) wrong.push("a figure on two lines");
    if (ratio < (bar ? LEAST_CONTRAST_OF_A_BAR : LEAST_CONTRAST)) wrong.push(`contrast ${ratio.toFixed(2)}`);
    if (size < LEAST_FONT) wrong.push(`font of ${size} px`);
    wrong.push(...broken(node).map((word) => `${word} is broken over two lines`));
    return wrong.map((what) => `${what}: ${node.data.trim().slice(0, 60)}`);
  }

  function texts() {
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const undrawn = node.parentElement.closest("style, meter");  // a meter shows its text where there are no meters
      if (node.data.trim() && !undrawn && seen(node.parentElement)) found.push(node);
    }
    return found;
  }

  const scrolls = [root, ...root.querySelectorAll("*")].filter((one) =>
    seen(one) && getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1);
  return {
    words: root.innerText,
    rows: [...root.querySelectorAll("tr")].filter(seen).map((row) => [...row.cells].map((cell) => cell.innerText)),
    wrong: [...texts().flatMap(complaints), ...scrolls.map((one) => `${one.localName} scrolls sideways`)],
    odd: [...root.querySelectorAll("script, svg, iframe, [id], [onclick]")].map((one) => one.outerHTML.slice(0, 80)),
  };
}
