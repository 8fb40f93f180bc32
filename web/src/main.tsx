import { render } from "preact";
import { App } from "./app";
import "./drawing.css";
import "./style.css";

// The token is in a cookie now; in the address it could be shared by mistake.
const url = new URL(location.href);
if (url.searchParams.has("token")) {
  url.searchParams.delete("token");
  history.replaceState(null, "", url);
}
render(<App />, document.getElementById("app")!);
