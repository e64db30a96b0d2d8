/** Vite gives the text of a module whose name ends in `?raw`. */
declare module '*?raw' {
  const text: string;
  export default text;
}
