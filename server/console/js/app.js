/** Starts the page: the parts around the view, then the view that the address names. */

import { startHeader } from "./shell/header.js";
import { startFailures } from "./shell/failures.js";
import { startRouter } from "./shell/router.js";
import { startTheme } from "./shell/theme.js";
import { startToken } from "./shell/token.js";

startTheme(document.getElementById("theme"));
startFailures(document.getElementById("failures"));
startToken();
const onRoute = startHeader();
startRouter(document.getElementById("view"), onRoute);
