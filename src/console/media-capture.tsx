// Camera and microphone. Browsers give them to pages of https and of this machine only; elsewhere the buttons are not there.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { messageOf } from './server-api.ts'

// Browsers leave the object out where a page may not use it.
const devices = navigator.mediaDevices as MediaDevices | undefined

const jpegQuality = 0.92

export function Camera({ onPicture }: { readonly onPicture: (picture: Blob) => void }): JSX.Element | null {
  const [stream, setStream] = useState<MediaStream | null>(null)
  const [problem, setProblem] = useState('')
  const video = useRef<HTMLVideoElement>(null)
  useStopped(stream)
  useEffect(() => {
    if (video.current !== null) video.current.srcObject = stream
  }, [stream])
  if (devices === undefined) return null
  const start = async (): Promise<void> => {
    try {
      setStream(await devices.getUserMedia({ video: { facingMode: 'environment' } }))
      setProblem('')
    } catch (reason) {
      setProblem(`no camera: ${messageOf(reason)}`)
    }
  }
  const take = (): void => {
    const shown = video.current
    if (shown === null || shown.videoWidth === 0) return
    const canvas = document.createElement('canvas')
    canvas.width = shown.videoWidth
    canvas.height = shown.videoHeight
    canvas.getContext('2d')?.drawImage(shown, 0, 0)
    canvas.toBlob((picture) => picture !== null && onPicture(picture), 'image/jpeg', jpegQuality)
    setStream(null)
  }
  if (stream === null) {
    return (
      <>
        <button type="button" class="quiet small" onClick={() => void start()}>
          Camera
        </button>
        {problem === '' ? null : <span class="problem">{problem}</span>}
      </>
    )
  }
  return (
    <div class="stack">
      <video ref={video} class="preview" autoplay muted playsInline aria-label="What the camera sees" />
      <div class="inline">
        <button type="button" class="main small" onClick={take}>
          Take the picture
        </button>
        <button type="button" class="quiet small" onClick={() => setStream(null)}>
          Close the camera
        </button>
      </div>
    </div>
  )
}

export function Microphone({ onSound }: { readonly onSound: (sound: Blob) => void }): JSX.Element | null {
  const [recorder, setRecorder] = useState<MediaRecorder | null>(null)
  const [problem, setProblem] = useState('')
  useStopped(recorder?.stream ?? null)
  if (devices === undefined) return null
  const start = async (): Promise<void> => {
    try {
      const made = new MediaRecorder(await devices.getUserMedia({ audio: true }))
      made.ondataavailable = ({ data }) => onSound(data)
      made.start()
      setRecorder(made)
      setProblem('')
    } catch (reason) {
      setProblem(`no microphone: ${messageOf(reason)}`)
    }
  }
  const stop = (): void => {
    recorder?.stop()
    setRecorder(null)
  }
  return (
    <>
      <button
        type="button"
        class={recorder === null ? 'quiet small' : 'danger small'}
        onClick={() => (recorder === null ? void start() : stop())}
      >
        {recorder === null ? 'Record' : 'Stop the recording'}
      </button>
      {problem === '' ? null : <span class="problem">{problem}</span>}
    </>
  )
}

/** The light of the device goes off when the stream is left. */
function useStopped(stream: MediaStream | null): void {
  useEffect(() => {
    return () => {
      for (const track of stream?.getTracks() ?? []) track.stop()
    }
  }, [stream])
}
