/** A widget's front end around one of the panel's views: its feed, and redrawing while it is visible. */
import { type FunctionComponent, type JSX, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { DrawLoop } from '../ui/draw-loop.js';
import { useChanges } from '../ui/use-changes.js';
import type { AnyModel, RenderProps, WidgetModule } from './afm.js';
import { type Feed, openFeed } from './feed.js';

/** Number of steps in a widget where Python does not set it. */
export const STEPS_SHOWN = 64;

export interface WidgetViewProps {
  readonly model: AnyModel;
  readonly feed: Feed;
  readonly loop: DrawLoop;
  /** True while it is not visible. */
  readonly paused: boolean;
}

export function widgetModule(View: FunctionComponent<WidgetViewProps>): WidgetModule {
  return {
    render({ model, el }: RenderProps): () => void {
      // The panel's styles, because these are its views.
      el.classList.add('jp-TPULabPanel', 'jp-TPULabWidget');
      const feed = openFeed(model);
      const loop = new DrawLoop(window);
      const root = createRoot(el);
      root.render(<Live View={View} el={el} model={model} feed={feed} loop={loop} />);
      return () => {
        root.unmount();
        loop.dispose();
        feed.dispose();
      };
    }
  };
}

interface LiveProps extends Pick<WidgetViewProps, 'model' | 'feed' | 'loop'> {
  readonly View: FunctionComponent<WidgetViewProps>;
  readonly el: HTMLElement;
}

function Live({ View, el, ...props }: LiveProps): JSX.Element {
  const paused = !useSeen(el);
  useChanges(props.feed, paused);
  return <View {...props} paused={paused} />;
}

/** Whether an element is on the screen, in a page that is shown. */
function useSeen(el: HTMLElement): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    let isInView = false;
    const updateSeen = (): void => setSeen(isInView && !document.hidden);
    const views = new IntersectionObserver(entries => {
      isInView = entries.at(-1)?.isIntersecting ?? false;
      updateSeen();
    });
    views.observe(el);
    document.addEventListener('visibilitychange', updateSeen);
    return () => {
      views.disconnect();
      document.removeEventListener('visibilitychange', updateSeen);
    };
  }, [el]);
  return isSeen;
}
