import { render } from "preact";
import { App } from "./app";
import "./style.css";

// The token is in a cookie now; in the address it could be shared by mistake.
const place = new URL(location.href);
if (place.searchParams.has("token")) {
  place.searchParams.delete("token");
  history.replaceState(null, "", place);
}
render(<App />, document.getElementById("app")!);
