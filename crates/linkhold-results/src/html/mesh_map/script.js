
(() => {
  const root = document.getElementById('mesh-map');
  const data = JSON.parse(document.getElementById('mesh-map-data').textContent);
  const controls = root.querySelector('.mesh-controls');
  const [play, slider, pick] = ['.mesh-play', '.mesh-slider', '.mesh-pick'].map(name => controls.querySelector(name));
  const userClass = {0: 'user', 1: 'user on', 2: 'user here', 3: 'user on here'};
  const panels = [...root.querySelectorAll('.mesh-case')].map((panel, index) => ({
    panel, frames: data.cases[index], svg: panel.querySelector('svg'), words: panel.querySelector('.mesh-words'),
    users: panel.querySelectorAll('.user'), nodes: panel.querySelectorAll('.node'),
    lines: panel.querySelectorAll('.route'), routes: panel.querySelectorAll('.mesh-route')}));
  let shown = panels[0];
  let timer = 0;

  const show = () => {
    const frame = shown.frames[Number(slider.value)];
    shown.svg.classList.toggle('silent', frame.s === 1);
    shown.users.forEach((user, i) => user.setAttribute('class', userClass[frame.u[i]]));
    shown.nodes.forEach((node, i) => {
      const known = 2 * i + 1 < frame.n.length;
      node.style.display = known ? '' : 'none';
      if (known) node.setAttribute('transform', `translate(${frame.n[2 * i]} ${frame.n[2 * i + 1]})`);
    });
    frame.r.forEach(([line, words, whole], i) => {
      shown.lines[i].setAttribute('d', line);
      shown.lines[i].classList.toggle('broken', whole === 0);
      shown.routes[i].textContent = words;
    });
    shown.words.textContent = frame.t;
    slider.setAttribute('aria-valuetext', frame.t);
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = 'Play';
  };
  const step = () => {
    slider.value = Number(slider.value) + 1;
    show();
    if (slider.value === slider.max) stop();
  };
  play.addEventListener('click', () => {
    if (timer) return stop();
    // At the end, playing begins anew.
    if (slider.value === slider.max) slider.value = 0;
    show();
    play.textContent = 'Pause';
    timer = setInterval(step, 400);
  });
  slider.addEventListener('input', () => { stop(); show(); });
  if (pick) pick.addEventListener('change', () => {
    shown = panels[Number(pick.value)];
    panels.forEach(one => one.panel.toggleAttribute('hidden', one !== shown));
    slider.max = shown.frames.length - 1;
    show();
  });
  // A reload may keep the choice and the slider as they were; the drawing is that of the page's source.
  if (pick) pick.value = '0';
  slider.value = data.start;
  controls.hidden = false;
  show();
})();
