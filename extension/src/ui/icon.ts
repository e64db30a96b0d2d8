/** Our icons, drawn for JupyterLab's themes. */
import { LabIcon } from '@jupyterlab/ui-components';
import chipSvg from '../../style/icons/chip.svg';

export const chipIcon = new LabIcon({ name: 'tpulab:chip', svgstr: chipSvg });
