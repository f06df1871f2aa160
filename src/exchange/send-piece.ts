/** When a client leaves this much unread and the model cannot be paused, the request is given up. */
const mostUnreadBytes = 16 * 1024 * 1024

/** Whoever makes the pieces of an answer. */
type PieceSource = {
  /** The client has not read the pieces that it was sent. */
  isBehind: boolean
  setPaused(isPaused: boolean): void
  /** The client does not read, and the model does not wait. */
  giveUp(unreadBytes: number): void
}

/** Sends a piece of an answer. While the client does not read, the model is paused. `write` returns false when it is behind. */
export function sendPiece(
  source: PieceSource,
  stream: { onDrain: (() => void) | null },
  unreadBytes: number,
  write: () => boolean,
): void {
  if (unreadBytes > mostUnreadBytes) {
    source.giveUp(unreadBytes)
    return
  }
  if (write() || source.isBehind) return
  source.isBehind = true
  stream.onDrain = () => {
    source.isBehind = false
    source.setPaused(false)
  }
  source.setPaused(true)
}
