const [form, notes, engine, start, progress, status, steps] = [
  'form', '#notes', '#engine', '#start', '#progress', '#status', '#steps',
].map((selector) => document.querySelector(selector));

form.addEventListener('submit', (event) => {
  event.preventDefault();
  start.disabled = true;
  steps.replaceChildren();
  const worker = new Worker(new URL('worker.mjs', import.meta.url), { type: 'module' });
  const finish = (text) => {
    status.textContent = text;
    start.disabled = false;
    worker.terminate();
  };
  worker.onerror = ({ message }) => finish(`failed: ${message}`);
  worker.onmessage = ({ data }) => {
    progress.value = data.progress;
    if (data.status) {
      status.textContent = data.status;
    }
    if (data.step) {
      const row = steps.insertRow();
      for (const text of [data.step, `${data.milliseconds.toPrecision(3)} ms`, data.result]) {
        row.insertCell().textContent = text;
      }
    }
    if (data.error) {
      finish(`failed: ${data.error}`);
    } else if (data.done) {
      finish('done');
    }
  };
  worker.postMessage({ count: notes.valueAsNumber, engine: engine.value || undefined });
});
