// Scripts that run in the page. They are texts, because the types of browsers are not known here.

/** A real JPEG of 48 × 32 black pixels as an array of bytes; its negative is white. */
export const blackJpeg = `(async () => {
  const canvas = new OffscreenCanvas(48, 32)
  canvas.getContext('2d').fillRect(0, 0, 48, 32)
  const picture = await canvas.convertToBlob({ type: 'image/jpeg' })
  return [...new Uint8Array(await picture.arrayBuffer())]
})()`

/** Pastes a picture of 20 × 20 pixels. */
export const pastePicture = `(async () => {
  const canvas = new OffscreenCanvas(20, 20)
  canvas.getContext('2d').fillRect(0, 0, 20, 20)
  const data = new DataTransfer()
  data.items.add(new File([await canvas.convertToBlob()], 'pasted.png', { type: 'image/png' }))
  document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data }))
})()`

/** The colour in the middle of a canvas. */
export const middleOf = (selector: string): string => `(() => {
  const canvas = document.querySelector(${JSON.stringify(selector)})
  return [...canvas.getContext('2d').getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data]
})()`

const allRules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']
/** Those whose answer changes with colours and widths; the others look at names, roles and order. */
const rulesOfLooks = ['color-contrast', 'target-size', 'scrollable-region-focusable', 'link-in-text-block']

/** What the accessibility rules say of the page, and whether it scrolls sideways. Needs axe in the page. */
export const findViolations = (isOtherLook: boolean): string => `axe
  .run(document, {
    runOnly: ${JSON.stringify(isOtherLook ? { type: 'rule', values: rulesOfLooks } : { type: 'tag', values: allRules })},
    resultTypes: ['violations'],
    preload: false,
  })
  .then(({ violations }) => [
    ...violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 160)).join(' | ')),
    ...(document.documentElement.scrollWidth > innerWidth ? ['the page scrolls sideways'] : []),
  ])`
