import { open, type FileHandle } from 'node:fs/promises'
import { ServerError } from '../../base/server-error.ts'
import { HttpResponse, type HttpRequest } from '../../transport/http1/http-message.ts'

const pieceBytes = 256 * 1024

/** Answers with the bytes of a file, or with what `fail` makes of the reason why there is none. */
export function answerWithFile(
  request: HttpRequest,
  contentType: string,
  find: () => Promise<string>,
  fail: (reason: unknown) => void,
): void {
  find()
    .then((file) =>
      open(file, 'r').catch(() => {
        throw new ServerError('NOT_FOUND', 'nothing was answered yet')
      }),
    ) // prettier-ignore
    .then((file) => sendFile(request, contentType, file), fail)
}

/** In pieces: the client's pace is the pace of the disk. */
async function sendFile(request: HttpRequest, contentType: string, file: FileHandle): Promise<void> {
  const client = { isGone: false }
  request.onDisconnect = () => (client.isGone = true)
  const stream = request.stream(new HttpResponse(200, contentType))
  try {
    for (let offset = 0; !client.isGone;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(pieceBytes), 0, pieceBytes, offset)
      if (bytesRead === 0) break
      offset += bytesRead
      if (!stream.write(buffer.subarray(0, bytesRead)) && !client.isGone) {
        await new Promise<void>((resolve) => {
          stream.onDrain = resolve
          request.onDisconnect = () => ((client.isGone = true), resolve())
        })
      }
    }
    stream.end()
  } catch {
    stream.abort()
  } finally {
    await file.close()
  }
}
