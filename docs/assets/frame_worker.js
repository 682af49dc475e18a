// Search without a server: browsers start no workers from files, so one is run in a hidden frame instead.
// The theme looks for `IFrameWorker`, and replaces `Worker` by it where pages are files.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    const inside = (this.inside = frame.contentWindow);
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    inside.importScripts = (...urls) =>
      urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
    this.ready = this.load(url);
  }
  load(url) {
    return new Promise((done, failed) => {
      const script = this.inside.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      script.onload = done;
      script.onerror = failed;
      this.inside.document.body.append(script);
    });
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
  }
  terminate() {
    this.inside.frameElement.remove();
  }
}
window.IFrameWorker = IFrameWorker;
if (location.protocol === "file:") window.Worker = IFrameWorker;
