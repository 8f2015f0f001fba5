// The search's worker for pages that are read from a folder: browsers start no workers there.
// The same script runs in a hidden frame instead, with the messages of a worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.ready = new Promise((started) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.told(this, data);
          const script = inside.document.createElement("script");
          script.onload = started;
          script.src = url;
          inside.document.body.append(script);
        };
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.ready.then(() => this.told(this.frame.contentWindow, data));
    }

    terminate() {
      this.frame.remove();
    }

    told(target, data) {
      const event = new MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (target === this && this.onmessage) this.onmessage(event);
    }
  };
}
