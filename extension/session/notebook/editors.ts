/** The editors of cells: JupyterLab's, with the languages loaded when a cell needs them. */
import {
  CodeMirrorEditorFactory,
  CodeMirrorMimeTypeService,
  EditorExtensionRegistry,
  EditorLanguageRegistry,
  EditorThemeRegistry,
  ybinding
} from '@jupyterlab/codemirror';
import type { IYText } from '@jupyter/ydoc';
import { EditorView } from '@codemirror/view';
import { trans } from '../text.js';

export const languages = new EditorLanguageRegistry();
for (const language of EditorLanguageRegistry.getDefaultLanguages()) languages.addLanguage(language);

export const mimeTypes = new CodeMirrorMimeTypeService(languages);

function extensions(): EditorExtensionRegistry {
  const themes = new EditorThemeRegistry();
  for (const theme of EditorThemeRegistry.getDefaultThemes()) themes.addTheme(theme);
  const registry = new EditorExtensionRegistry();
  for (const factory of EditorExtensionRegistry.getDefaultExtensions({ themes })) {
    registry.addExtension(factory);
  }
  registry.addExtension({
    name: 'shared-model-binding',
    factory: ({ model }) => {
      const { ysource, undoManager } = model.sharedModel as unknown as IYText;
      return EditorExtensionRegistry.createImmutableExtension(
        ybinding({ ytext: ysource, undoManager: undoManager ?? undefined })
      );
    }
  });
  // Without a name a screen reader reads "edit text" for every cell.
  registry.addExtension({
    name: 'accessible-name',
    factory: () =>
      EditorExtensionRegistry.createImmutableExtension(
        EditorView.contentAttributes.of({ 'aria-label': trans.__('Cell source') })
      )
  });
  return registry;
}

export const editorFactory = new CodeMirrorEditorFactory({ extensions: extensions(), languages });
