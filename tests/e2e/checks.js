// What a reader cannot see of the notebook that is open, as sentences.
window.unseen = () => {
  const found = [];
  const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];
  const say = (element, what) =>
    found.push(`cell ${cells.indexOf(element.closest('.jp-Cell'))}: ${what}`);

  for (const image of document.querySelectorAll('.jp-Notebook img')) {
    if (!image.naturalWidth) {
      say(image, 'an image is not drawn');
      continue;
    }
    const { naturalWidth: width, naturalHeight: height } = image;
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, width, height).data;
    if (pixels.some((value, i) => i % 4 === 3 && value < 255))
      say(image, 'an image is transparent: a dark theme shines through');
  }

  // Contrast as WCAG defines it: 4.5 is what text needs.
  const channels = colour => colour.match(/[\d.]+/g).map(Number);
  const luminance = rgb => {
    const [r, g, b] = rgb.map(c => c / 255)
      .map(c => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    const [r, g, b, alpha = 1] = channels(getComputedStyle(element).backgroundColor);
    if (alpha === 1 || !element.parentElement) return [r, g, b];
    const below = behind(element.parentElement);
    return [r, g, b].map((c, i) => alpha * c + (1 - alpha) * below[i]);
  };
  const contrast = element => {
    const colour = channels(getComputedStyle(element).color).slice(0, 3);
    const [low, high] = [colour, behind(element)].map(luminance).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  const clips = part => {
    const { overflowX, overflowY } = getComputedStyle(part);
    return (/hidden|clip/.test(overflowX) && part.scrollWidth > part.clientWidth + 1)
      || (/hidden|clip/.test(overflowY) && part.scrollHeight > part.clientHeight + 1);
  };

  const words = node => node.nodeType === Node.TEXT_NODE && node.data.trim();
  for (const area of document.querySelectorAll('.jp-OutputArea-output, .jp-RenderedMarkdown')) {
    if (area.scrollWidth > area.clientWidth + 1)
      say(area, `${area.scrollWidth} pixels wide, in ${area.clientWidth}`);
    const edge = area.getBoundingClientRect();
    for (const part of area.querySelectorAll('*')) {
      if (!part.checkVisibility() || part.closest('mjx-container')) continue;
      if (clips(part)) say(part, `cut: ${part.textContent}`);
      const text = [...part.childNodes].some(words);
      if (!(text || part.matches('img'))) continue;
      const { left, right, bottom } = part.getBoundingClientRect();
      if (left < edge.left - 1 || right > edge.right + 1 || bottom > edge.bottom + 1)
        say(part, `cut: ${part.textContent || 'an image'}`);
      if (text && !part.matches('pre span') && contrast(part) < 4.5)  // not JupyterLab's own colours
        say(part, `pale, contrast ${contrast(part).toFixed(1)}: ${part.textContent}`);
    }
  }
  return found;
};

// Progress bars come and go: how many were drawn?
window.bars = 0;
new MutationObserver(changes => {
  const nodes = changes.flatMap(change => [...change.addedNodes]).filter(node => node.matches);
  for (const node of nodes)
    window.bars += node.matches('.widget-hprogress') + node.querySelectorAll('.widget-hprogress').length;
}).observe(document, { childList: true, subtree: true });
