/** The bundler imports an SVG file as text. */
declare module '*.svg' {
  const text: string;
  export default text;
}

/** Styles of a part that is loaded when it is first shown; the bundler adds them to that part. */
declare module '*.css';
