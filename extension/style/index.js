import './base.css';
import './panel.css';
import './devices.css';
import './steps.css';
import './compilations.css';
import './status.css';
