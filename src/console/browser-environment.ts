// What the bundler adds to the standard.

declare module '*.css'
