/** The bundler imports an SVG file as text. */
declare module '*.svg' {
  const text: string;
  export default text;
}
