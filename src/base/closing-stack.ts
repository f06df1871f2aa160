/** What was opened, and how to close it. Like the platform's AsyncDisposableStack, which embedding in Node 22 cannot use. */
export class ClosingStack {
  readonly #closings: (() => unknown)[] = []

  /** What was added last is closed first. */
  add<T>(opened: T, close: (opened: T) => unknown): T {
    this.#closings.push(() => close(opened))
    return opened
  }

  /** Keeps a place in the order for things that are opened later. */
  place(): ClosingStack {
    return this.add(new ClosingStack(), (later) => later.close())
  }

  /** Closes one thing after the other. A failure keeps nothing else open, and is thrown at the end. Twice is fine. */
  async close(): Promise<void> {
    const failures: unknown[] = []
    for (let close = this.#closings.pop(); close !== undefined; close = this.#closings.pop()) {
      try {
        await close()
      } catch (reason) {
        failures.push(reason)
      }
    }
    if (failures.length > 0) throw failures[0]
  }
}

/** Closes everything again when `open` fails. Then its reason counts, and not how the closing went. */
export async function openOrClose<T>(open: (closing: ClosingStack) => Promise<T>): Promise<T> {
  const closing = new ClosingStack()
  try {
    return await open(closing)
  } catch (reason) {
    await closing.close().catch(() => undefined)
    throw reason
  }
}
