// Moves what notebook.explore has drawn for all values of its controls: the picture's place in the
// list is that of the controls' values, the last control's fastest. Without this script, and in
// print, the still stays.
for (const box of document.querySelectorAll(".explorer")) {
  const pictures = JSON.parse(box.querySelector("script").textContent);
  const controls = [...box.querySelectorAll("select, input")];
  const image = box.querySelector("img");
  const follow = () => {
    let place = 0;
    const values = [];
    for (const control of controls) {
      const slides = control.type === "range";
      const labels = slides ? JSON.parse(control.dataset.labels) : [...control.options].map(o => o.text);
      const chosen = slides ? Number(control.value) : control.selectedIndex;
      if (slides) control.nextElementSibling.value = labels[chosen];
      values.push(control.parentElement.firstChild.textContent + labels[chosen]);
      place = place * labels.length + chosen;
    }
    image.src = "data:image/webp;base64," + pictures[place];
    image.alt = "The picture at " + values.join(", ");
  };
  box.classList.add("moves");
  for (const control of controls) control.addEventListener("input", follow);
  follow();  // a browser keeps moved controls when a page is loaded again
}
